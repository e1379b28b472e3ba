#!/bin/bash
# An operator's work on a Kafka cluster: topics, configs, records, groups, offsets, replicas, and failures.
#
# usage: operations.sh HOST:PORT
#
# It needs Kafka's commands on the PATH, and a new cluster of one broker with the id 1. It prints each command, its
# stdout, its stderr with `!` before each line, and its exit code. After a change, some commands are repeated until the
# change shows.
set -u -o pipefail

bootstrap=${1:?usage: operations.sh HOST:PORT}
kafka=(--bootstrap-server "$bootstrap")
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
cd "$work" || exit

# run COMMAND...: print a command, its output, and its exit code.
run() {
    until_shown '' "$@"
}

# until_shown TEXT COMMAND...: the same, with a command that is repeated until it prints TEXT.
until_shown() {
    local expected=$1 code
    shift
    printf '$ %s\n' "$*"
    for _ in {1..50}; do
        "$@" >printed 2>complaints
        code=$?
        grep --quiet --fixed-strings -- "$expected" printed && break
        [[ -z $expected ]] && break
        sleep 0.2
    done
    cat printed
    sed 's/^/! /' complaints
    printf 'exit code %d\n' "$code"
}

heading() {
    printf '# %s\n' "$*"
}

# offset TOPIC:PARTITION TIME
offset() {
    kafka-get-offsets.sh "${kafka[@]}" --topic-partitions "$1" --time "$2" | cut -d: -f3
}

# Values of this cluster that a script needs.
known_requests() {
    kafka-broker-api-versions.sh "${kafka[@]}" | grep --only-matching --word-regexp 'Produce([0-9]*)\|Fetch([0-9]*)'
}

log_directory() {
    kafka-log-dirs.sh "${kafka[@]}" --describe --topic-list "$1" | tail -n 1 | sed 's/.*"logDir":"\([^"]*\)".*/\1/'
}

stored_partitions() {
    kafka-log-dirs.sh "${kafka[@]}" --describe --broker-list 1 --topic-list "$1" |
        grep --only-matching '"partition":"[^"]*"' | sort
}

stored_values() {
    kafka-dump-log.sh --files "$(log_directory "$1")/$1-0/00000000000000000000.log" --print-data-log |
        grep --only-matching 'payload: .*'
}

# Reading without a group also creates a group.
groups_of_applications() {
    kafka-consumer-groups.sh "${kafka[@]}" --list | grep --invert-match '^console-consumer-'
}

group_type() {
    kafka-groups.sh "${kafka[@]}" --list | awk -v group="$1" '$1 == group { print $2, $3 }'
}

sorted_records() {
    kafka-console-consumer.sh "${kafka[@]}" --timeout-ms 20000 "$@" | sort
}

cat >hasty.properties <<'END'
default.api.timeout.ms=1000
request.timeout.ms=1000
END

heading 'The cluster answers'
run kafka-topics.sh --version
run kafka-cluster.sh cluster-id "${kafka[@]}"
run known_requests
run kafka-configs.sh "${kafka[@]}" --alter --broker-defaults --add-config min.insync.replicas=1

heading 'Topics'
run kafka-topics.sh "${kafka[@]}" --create --topic orders --partitions 3 --replication-factor 1 --config retention.ms=604800000
run kafka-topics.sh "${kafka[@]}" --create --topic payments --replica-assignment 1 --config cleanup.policy=compact
run kafka-topics.sh "${kafka[@]}" --create --topic orders --if-not-exists
run kafka-topics.sh "${kafka[@]}" --create --topic audit --config retention.ms=soon
until_shown payments kafka-topics.sh "${kafka[@]}" --list
run kafka-topics.sh "${kafka[@]}" --create --topic orders
run kafka-topics.sh "${kafka[@]}" --alter --topic orders --partitions 4
run kafka-topics.sh "${kafka[@]}" --alter --topic orders --partitions 2
until_shown 'Partition: 3' kafka-topics.sh "${kafka[@]}" --describe --topic orders
run kafka-topics.sh "${kafka[@]}" --describe --under-replicated-partitions
run kafka-topics.sh "${kafka[@]}" --describe --topic invoices

heading 'Configs'
run kafka-configs.sh "${kafka[@]}" --alter --topic orders --add-config retention.ms=86400000,max.message.bytes=2000000
until_shown 86400000 kafka-configs.sh "${kafka[@]}" --describe --topic orders
run kafka-configs.sh "${kafka[@]}" --alter --topic orders --add-config retention.hours=1
run kafka-configs.sh "${kafka[@]}" --alter --entity-type brokers --entity-name 1 --add-config log.retention.ms=96400000
until_shown 96400000 kafka-configs.sh "${kafka[@]}" --describe --entity-type brokers --entity-name 1

heading 'Records'
keyed=(--reader-property parse.key=true --reader-property key.separator=:)
printf '%s\n' {1..8}:{books,tea} | run kafka-console-producer.sh "${kafka[@]}" --topic orders "${keyed[@]}"
printf '%s\n' alice:10 bob:20 alice:30 carol:40 |
    run kafka-console-producer.sh "${kafka[@]}" --topic payments "${keyed[@]}" --compression-codec lz4 --request-required-acks all
printf '%s\n' alice:10 nonsense bob:20 | run kafka-console-producer.sh "${kafka[@]}" --topic payments "${keyed[@]}"
run sorted_records --topic orders --from-beginning --max-messages 16
run kafka-console-consumer.sh "${kafka[@]}" --topic payments --from-beginning --max-messages 4 \
    --formatter-property print.key=true --formatter-property print.offset=true
run kafka-console-consumer.sh "${kafka[@]}" --topic payments --partition 0 --offset 1 --max-messages 2
run kafka-console-consumer.sh "${kafka[@]}" --topic payments --from-beginning --group billing --max-messages 3
run stored_values payments

heading 'Groups and offsets'
run groups_of_applications
run group_type billing
run kafka-consumer-groups.sh "${kafka[@]}" --describe --group billing
run kafka-consumer-groups.sh "${kafka[@]}" --describe --group billing --state
run kafka-consumer-groups.sh "${kafka[@]}" --reset-offsets --group billing --topic payments --to-earliest --dry-run
run kafka-consumer-groups.sh "${kafka[@]}" --reset-offsets --group billing --topic payments --shift-by -2 --execute
kafka-consumer-groups.sh "${kafka[@]}" --reset-offsets --group billing --topic payments --to-current --dry-run --export >saved.csv
run cat saved.csv
run kafka-consumer-groups.sh "${kafka[@]}" --reset-offsets --group billing --all-topics --to-latest --execute
run kafka-consumer-groups.sh "${kafka[@]}" --reset-offsets --group billing --from-file saved.csv --execute
run kafka-consumer-groups.sh "${kafka[@]}" --describe --group billing
run kafka-consumer-groups.sh "${kafka[@]}" --reset-offsets --group billing --topic orders:2 --to-offset 1 --execute
run kafka-consumer-groups.sh "${kafka[@]}" --delete-offsets --group billing --topic orders:2
run kafka-consumer-groups.sh "${kafka[@]}" --delete --group billing --group nobody
run kafka-get-offsets.sh "${kafka[@]}" --topic 'orders|payments' --time earliest
run kafka-get-offsets.sh "${kafka[@]}" --topic invoices
run offset payments:0 latest

heading 'Old records, leaders, replicas'
printf '{"partitions": [{"topic": "orders", "partition": 0, "offset": -1}], "version": 1}' >old.json
printf '{"version": 1, "partitions": [{"topic": "orders", "partition": 1, "replicas": [1]}]}' >moved.json
printf '{"version": 1, "partitions": [{"topic": "orders", "partition": 1, "replicas": [1, 7]}]}' >nowhere.json
printf '{"version": 1, "topics": [{"topic": "payments"}]}' >topics.json
run kafka-delete-records.sh "${kafka[@]}" --offset-json-file old.json
run kafka-leader-election.sh "${kafka[@]}" --election-type preferred --all-topic-partitions
run kafka-leader-election.sh "${kafka[@]}" --election-type preferred --topic orders --partition 9
run kafka-reassign-partitions.sh "${kafka[@]}" --generate --topics-to-move-json-file topics.json --broker-list 1
run kafka-reassign-partitions.sh "${kafka[@]}" --execute --reassignment-json-file moved.json --throttle 50000000
run kafka-reassign-partitions.sh "${kafka[@]}" --verify --reassignment-json-file moved.json
run kafka-reassign-partitions.sh "${kafka[@]}" --execute --reassignment-json-file nowhere.json
run kafka-reassign-partitions.sh "${kafka[@]}" --list
run stored_partitions payments

heading 'Wrong usage, and nobody there'
run kafka-topics.sh "${kafka[@]}" --frobnicate
run kafka-topics.sh --list
run kafka-consumer-groups.sh "${kafka[@]}" --describe --group billing --members --state
run kafka-configs.sh "${kafka[@]}" --alter --topic orders
run kafka-topics.sh --bootstrap-server 127.0.0.1:1 --command-config hasty.properties --list

heading 'The end of the day'
run kafka-topics.sh "${kafka[@]}" --delete --topic payments
run kafka-topics.sh "${kafka[@]}" --delete --topic invoices --if-exists
