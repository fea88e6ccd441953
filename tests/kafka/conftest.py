"""The fixtures of the tests on a real Kafka."""

from tests.worker.conftest import make as make
from tests.worker.conftest import settings as settings
