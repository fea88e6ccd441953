/* The fields of `similarity`, a pair of a new and a known item: FIELD(type, name). core.h makes the struct of them, and
 * Python its dtype (dedup/similarity.py). Shares are 0 to 1.
 *
 * A float is NaN where it is unknown; the line above its group says when. A comparison with NaN is false, and the rule
 * relies on that: who asks whether a similarity is high enough, or low enough, gets "no" where it is unknown. So the
 * unknown neither holds an item back nor counts as news. Where "yes" must follow, the opposite is negated, as in
 * `!(pair->headline >= 1)`. The trees get no NaN: rule.c says for each feature which number stands in its place. In
 * `max_f32` and `min_f32` it matters whether a float that may be NaN stands first. */

/* Never NaN. `apart` stands first and `rest` last of the floats: `forget` in similarity.c fills what lies between. */
FIELD(float, apart)          /* hours between the two */
FIELD(float, log_size_ratio) /* natural logarithm of the ratio of body sizes, new to known */

/* NaN unless both have a SimHash. */
FIELD(float, distance) /* bits in which the two differ */

/* NaN unless both have a body; and for SimHashes, containment. */
FIELD(float, body)        /* Jaccard of the bodies; of SimHashes the cosine that their distance estimates */
FIELD(float, containment) /* share of the smaller body that the other contains */

/* NaN unless both have a headline. */
FIELD(float, headline) /* Jaccard of the headlines */
/* Share of a headline's words that its own text contains, the larger of the two: .4 or more in articles, .2 or less in
 * pages whose text is menus, notices or a login form. */
FIELD(float, grounded)
FIELD(float, headline_losses) /* words of the known headline that its own text has and the new item lacks */

/* NaN for SimHashes. */
FIELD(float, lost_words)     /* distinct words of the known item that the new one lacks */
FIELD(float, lost_numbers)   /* bits of figures of the known item that the new one lacks */
FIELD(float, gained_words)   /* distinct words of the new item that the known one lacks */
FIELD(float, gained_numbers) /* bits of figures of the new item that the known one lacks */
FIELD(float, fewer_words)    /* words of the item with fewer words */

/* NaN where novelty is not computed. The article is that of the new item; or its text, if there is hardly any. */
FIELD(float, covered)       /* share of the article, or of its body, that the known body contains for certain */
FIELD(float, article_share) /* share of the tokens of the text that are article */
FIELD(float, tokens)        /* tokens of the article */
FIELD(float, words)         /* words of the article */
FIELD(float, new_words)     /* words of the article that the known item lacks */
FIELD(float, new_sentences) /* words in sentences that are mostly new */
FIELD(float, spread)        /* share of the sentences that have a new word */
FIELD(float, numbers)       /* distinct figures of the prose */
FIELD(float, new_numbers)   /* those of them that the known item lacks */
FIELD(float, new_numbers_anywhere) /* distinct figures of the whole text that the known item lacks */
FIELD(float, headline_numbers)     /* figures of the headline */
FIELD(float, new_headline_numbers) /* those of them that the known item lacks */
FIELD(float, new_headline)         /* words of the headline that the known item lacks */
FIELD(float, headline_gains)       /* those of them that its own text has */
FIELD(float, headline_figures)     /* figures of the headline that its own text has and the known item lacks */

/* NaN where novelty is not computed, or one of the two has no sequence. By a diff of the two texts, in tokens, without
 * sentences that recur. A word is new if it has no partner in the known text. */
FIELD(float, matched)          /* share of all sentences that the known item has */
FIELD(float, fresh)            /* new words in sentences of prose of which half or more is new */
FIELD(float, inserted)         /* those of them that stand between known sentences */
FIELD(float, altered)          /* in the other sentences, words in the place of others */
FIELD(float, facts)            /* there, figures in the place of others, and negations that came in or are lost */
FIELD(float, altered_headline) /* of `altered` and `facts`, what the new headline says and the known one does not */
FIELD(float, brief)            /* new words in short sentences behind known ones, and in rows of a list */
FIELD(float, told)             /* words that only the new headline says, in the new sentence which says most of them */
FIELD(float, lead)             /* new words in the first sentence of prose */
FIELD(float, said)             /* words there that only the new headline says */
FIELD(float, places)           /* places where new words stand between known ones */
FIELD(float, rewritten)        /* new words of those places behind the first sentence that have three or more */
FIELD(float, unmatched)        /* new words of all sentences */
FIELD(float, rest)             /* new words of all sentences but the first one of prose */

/* No floats. A flag is false where it is unknown. */
FIELD(uint32_t, smaller_size) /* distinct shingles of the smaller body */
/* The mark of a filled-in template: each headline has a word that the other headline lacks and its own text contains,
 * and the new text lacks that word of the known headline. (Words of two headlines for one text are in both texts.) */
FIELD(bool, swapped)
FIELD(bool, other_order) /* the headlines have the same words in another order */
FIELD(bool, same_form)   /* the headlines differ at most in numbers */
FIELD(bool, same_source)
FIELD(bool, same_text) /* the same words in headline and body: one text under two headlines is not the same text */
FIELD(bool, same_id)
FIELD(bool, within_hamming) /* the distance is at most that of the scheme */
/* The new item says that it corrects an earlier one: in a headline that is not the known one, or in a text that has
 * something that the known one lacks. */
FIELD(bool, corrects)

#undef FIELD
