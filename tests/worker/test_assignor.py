"""In scope global one member is active, and stays active through rebalances."""

from types import SimpleNamespace
from typing import Any

from kafka import TopicPartition
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment, ConsumerProtocolSubscription

from stream_dedup.kafka.assignor import CooperativeAssignor, SingleActiveAssignor
from stream_dedup.worker.group import Changes

CLUSTER = SimpleNamespace(partitions_for_topic=lambda topic: {2, 0, 1} if topic == "news" else None)


def rebalance(members: dict[str, SingleActiveAssignor], generation: int) -> dict[str, set[TopicPartition]]:
    """Rebalance as a group does: through encoded bytes, with one member as leader."""
    joined = []
    for name, assignor in members.items():
        subscription = ConsumerProtocolSubscription.decode(assignor.metadata({"news"}).encode())
        joined.append(SimpleNamespace(member_id=name, metadata=subscription))
    leader = next(iter(members.values()))
    assigned: dict[str, set[TopicPartition]] = {}
    for name, assignment in leader.assign(CLUSTER, joined).items():
        decoded: Any = ConsumerProtocolAssignment.decode(assignment.encode())
        members[name].on_assignment(decoded, generation)
        assigned[name] = set(decoded.partitions())
    return assigned


ALL = {TopicPartition("news", one) for one in (0, 1, 2)}


def test_one_gets_everything() -> None:
    assigned = rebalance({"b": SingleActiveAssignor(), "a": SingleActiveAssignor()}, 1)
    assert assigned == {"a": ALL, "b": set()}


def test_a_joining_standby_changes_nothing() -> None:
    members = {"m": SingleActiveAssignor()}
    assert rebalance(members, 1) == {"m": ALL}
    members = {"a": SingleActiveAssignor(), **members, "z": SingleActiveAssignor()}
    assert rebalance(members, 2) == {"a": set(), "m": ALL, "z": set()}
    assert {assignor.active_member for assignor in members.values()} == {"m"}
    assert rebalance(members, 3) == {"a": set(), "m": ALL, "z": set()}


def test_the_next_takes_over_and_a_zombie_does_not_take_it_back() -> None:
    zombie = SingleActiveAssignor()
    members = {"a": zombie, "b": SingleActiveAssignor()}
    assert rebalance(members, 1)["a"] == ALL
    del members["a"]
    assert rebalance(members, 2) == {"b": ALL}
    # It does not know of the take-over and claims to be active in generation 1.
    members = {"a": zombie, **members}
    assert rebalance(members, 3) == {"a": set(), "b": ALL}


def test_foreign_user_data_is_no_claim() -> None:
    assignor, other = SingleActiveAssignor(), SingleActiveAssignor()
    rebalance({"b": assignor}, 5)
    subscription = ConsumerProtocolSubscription(0, ["news"], b"something else")
    joined = [
        SimpleNamespace(member_id="a", metadata=ConsumerProtocolSubscription.decode(subscription.encode())),
        SimpleNamespace(member_id="b", metadata=assignor.metadata({"news"})),
    ]
    assert {one: bool(share.partitions()) for one, share in other.assign(CLUSTER, joined).items()} == {
        "a": False,
        "b": True,
    }


def test_an_unknown_topic_is_assigned_to_no_member() -> None:
    member = SimpleNamespace(member_id="a", metadata=SingleActiveAssignor().metadata({"missing"}))
    assert SingleActiveAssignor().assign(CLUSTER, [member])["a"].partitions() == []


def test_a_member_that_gave_the_role_up_gets_it_back_only_without_other_members() -> None:
    reluctant, other = SingleActiveAssignor(is_reluctant=True), SingleActiveAssignor()
    assert rebalance({"a": reluctant, "b": other}, 1) == {"a": set(), "b": ALL}
    assert rebalance({"a": reluctant, "b": other}, 2) == {"a": set(), "b": ALL}
    # It stays reluctant while it stands by, but not after it has had the role.
    assert rebalance({"a": reluctant, "c": SingleActiveAssignor()}, 3) == {"a": set(), "c": ALL}
    assert rebalance({"a": reluctant}, 4) == {"a": ALL}
    assert rebalance({"a": reluctant, "0": SingleActiveAssignor()}, 5) == {"a": ALL, "0": set()}


def test_lost_partitions_are_no_longer_claimed() -> None:
    assignor = CooperativeAssignor()
    changes = Changes(SimpleNamespace(), assignor.on_lost)
    assignor.on_assignment(ConsumerProtocolAssignment(1, [("news", [0, 1])], b""), 3)
    assert [(one.topic, one.partitions) for one in assignor.metadata({"news"}).owned_partitions] == [("news", [0, 1])]
    changes.on_partitions_lost([TopicPartition("news", 0), TopicPartition("news", 1)])
    assert assignor.metadata({"news"}).owned_partitions == []
