"""One harness for tests that run workers on a real Kafka: tests/worker, soak, operate, load, and others.

topics    settings, topics and offsets on a cluster
member    workers in processes of their own; forked.py and command.py run in them and have faults built in
feed      what is sent to the input topic
wait      waits for a condition
check     what came out, and whether each record came out exactly once

The broker is tests/broker.py. Workers in the test's own process are in tests/worker/support.py.
"""
