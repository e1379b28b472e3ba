"""kafka-configs for quotas of users, clients, both, and addresses, and for their defaults."""

FILES = {"L": "producer_byte_rate=1.0E9\n", "S": "request_percentage=300\n"}
COMMANDS = {
    "quotas: users and clients have quotas": """
        configs --describe --user alice
        configs --alter --user alice --add-config producer_byte_rate=1024,consumer_byte_rate=2048.5
        configs --describe --user alice
        configs --alter --client app --add-config request_percentage=12.5,controller_mutation_rate=10
        configs --describe --client app
        configs --alter --user alice --client app --add-config producer_byte_rate=10000000
        configs --describe --user alice --client app
        configs --describe --user alice
        configs --describe --entity-type users --entity-type clients
        configs --alter --entity-type clients --entity-name b --entity-type users --entity-name bob --add-config-file L
        configs --describe --entity-type users --entity-type clients
        configs --describe --entity-type clients --entity-type users --entity-name b
        configs --describe --entity-type users --entity-name bob --entity-type clients
        configs --describe --entity-type users
        configs --describe --entity-type clients
        configs --alter --user alice --delete-config producer_byte_rate
        configs --describe --user alice
        configs --alter --user alice --delete-config producer_byte_rate
        configs --alter --user alice --add-config producer_byte_rate=5 --delete-config consumer_byte_rate
        configs --describe --user alice
    """,
    "quotas: defaults have quotas": """
        configs --alter --user-defaults --add-config producer_byte_rate=100
        configs --alter --client-defaults --add-config consumer_byte_rate=200
        configs --describe --user-defaults
        configs --describe --client-defaults
        configs --alter --entity-type users --entity-default --entity-type clients --entity-default --add-config-file S
        configs --describe --entity-type users --entity-default --entity-type clients --entity-default
        configs --alter --entity-type users --entity-default --entity-type clients --entity-name x --add-config-file S
        configs --alter --entity-type users --entity-name x --entity-type clients --entity-default --add-config-file S
        configs --alter --user-defaults --client x --add-config request_percentage=303
        configs --describe --entity-type users --entity-type clients
        configs --describe --user-defaults --client-defaults
        configs --describe --entity-type users --entity-default
        configs --alter --user-defaults --delete-config producer_byte_rate
        configs --describe --user-defaults
    """,
    "quotas: addresses have quotas": """
        configs --describe --ip 10.0.0.1
        configs --alter --ip 10.0.0.1 --add-config connection_creation_rate=10
        configs --describe --ip 10.0.0.1
        configs --alter --ip-defaults --add-config connection_creation_rate=20
        configs --describe --ip-defaults
        configs --describe --entity-type ips
        configs --alter --ip 10.0.0.1 --add-config producer_byte_rate=1
        configs --alter --ip 10.0.0.1 --delete-config producer_byte_rate,bogus
        configs --alter --ip 10.0.0.1 --add-config connection_creation_rate=-5
        configs --alter --ip 10.0.0.1 --add-config connection_creation_rate=1.5
        configs --alter --entity-type ips --entity-name 10.0.0.1 --delete-config connection_creation_rate
        configs --describe --entity-type ips --entity-name 10.0.0.1
    """,
    "quotas: quotas that cannot be are refused": """
        configs --alter --user carol --add-config producer_byte_rate=many
        configs --alter --user carol --add-config producer_byte_rate=
        configs --alter --user carol --add-config producer_byte_rate=-1
        configs --alter --user carol --add-config producer_byte_rate=0
        configs --alter --user carol --add-config producer_byte_rate=1.5
        configs --alter --user carol --add-config bogus=1
        configs --alter --user carol --add-config bogus=1,unheard.of=2,producer_byte_rate=3
        configs --alter --user carol --delete-config bogus
        configs --alter --user carol --delete-config bogus,unheard.of
        configs --alter --client carol --add-config bogus=1
        configs --alter --client carol --add-config connection_creation_rate=1
        configs --alter --client carol --add-config SCRAM-SHA-256=[password=x]
        configs --alter --client carol --add-config SCRAM-SHA-256=[password=x],bogus=1
        configs --alter --client carol --delete-config SCRAM-SHA-256
        configs --alter --client carol --delete-config SCRAM-SHA-256,bogus
        configs --alter --user carol --client app --add-config SCRAM-SHA-256=[password=x]
        configs --alter --user carol --add-config SCRAM-SHA-256=[password=x],producer_byte_rate=1
        configs --alter --user-defaults --add-config SCRAM-SHA-256=[password=x]
        configs --alter --user-defaults --delete-config SCRAM-SHA-512
        configs --alter --user '' --add-config producer_byte_rate=1
        configs --describe --entity-type users --entity-name a --entity-name b
        configs --describe --user carol
    """,
}
