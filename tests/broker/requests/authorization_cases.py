"""For each API a request that is denied in part, or as a whole, and how its entries are answered."""

from typing import Any, NamedTuple

from ottla.broker.requests.authorizer import Operation, ResourceType
from ottla.wire.api_keys import ApiKey
from ottla.wire.errors import ErrorCode
from ottla.wire.messages import (
    add_partitions_to_txn,
    alter_configs,
    describe_producers,
    describe_topic_partitions,
    incremental_alter_configs,
)
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from ottla.wire.messages.alter_partition import AlterPartitionRequest
from ottla.wire.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from ottla.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.controlled_shutdown import ControlledShutdownRequest
from ottla.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.delete_groups import DeleteGroupsRequest
from ottla.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.wire.messages.describe_cluster import DescribeClusterRequest
from ottla.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.wire.messages.describe_groups import DescribeGroupsRequest
from ottla.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from ottla.wire.messages.describe_transactions import DescribeTransactionsRequest
from ottla.wire.messages.elect_leaders import ElectLeadersRequest
from ottla.wire.messages.end_txn import EndTxnRequest
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.join_group import JoinGroupRequest
from ottla.wire.messages.leader_and_isr import LeaderAndIsrRequest
from ottla.wire.messages.leave_group import LeaveGroupRequest
from ottla.wire.messages.list_groups import ListGroupsRequest
from ottla.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from ottla.wire.messages.list_transactions import ListTransactionsRequest
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.messages.offset_delete import OffsetDeleteRequest
from ottla.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic
from ottla.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.messages.stop_replica import StopReplicaRequest
from ottla.wire.messages.sync_group import SyncGroupRequest
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ottla.wire.messages.update_metadata import UpdateMetadataRequest
from ottla.wire.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from ottla.wire.records.batch import NewRecord, build_batch
from ottla.wire.schema import Request

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
TRANSACTION = ResourceType.TRANSACTIONAL_ID
NONE = ErrorCode.NONE
TOPIC_FAILED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
GROUP_FAILED = ErrorCode.GROUP_AUTHORIZATION_FAILED
# Of a group or a transactional id that may be asked for, where none has been asked for yet.
UNFOUND = ErrorCode.NOT_COORDINATOR
CLUSTER_FAILED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
TRANSACTION_FAILED = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED

Denied = tuple[Operation, ResourceType, str]


def on_cluster(*operations: Operation) -> set[Denied]:
    return {(operation, CLUSTER, "kafka-cluster") for operation in operations}


def producing(*topics: str, acks: int = -1, transactional_id: str | None = None) -> ProduceRequest:
    records = build_batch([NewRecord(value=b"x", timestamp=1)])
    data = [
        TopicProduceData(name=each, partition_data=[PartitionProduceData(index=0, records=records)]) for each in topics
    ]
    return ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=data, transactional_id=transactional_id)


def fetching_all(*topics: str, **others: Any) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    asked = [FetchTopic(topic=each, partitions=[partition]) for each in topics]
    wanted: dict[str, Any] = {"max_wait_ms": 50, "min_bytes": 1, "topics": asked}
    return FetchRequest(**wanted | others)


def new_topics(*names: str) -> CreateTopicsRequest:
    topics = [
        CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=(), configs=()) for name in names
    ]
    return CreateTopicsRequest(topics=topics, timeout_ms=10_000)


def commit(group: str, *topics: str) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
    return OffsetCommitRequest(
        group_id=group, topics=[OffsetCommitRequestTopic(name=each, partitions=[partition]) for each in topics]
    )


def added(*topics: str, name: str = "tx") -> add_partitions_to_txn.AddPartitionsToTxnRequest:
    return add_partitions_to_txn.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=name,
        v3_and_below_producer_id=1,
        v3_and_below_topics=[
            add_partitions_to_txn.AddPartitionsToTxnTopic(name=each, partitions=[0]) for each in topics
        ],
    )


def added_offsets(group: str) -> AddOffsetsToTxnRequest:
    return AddOffsetsToTxnRequest(transactional_id="tx", producer_id=1, producer_epoch=0, group_id=group)


def commit_in_transaction(group: str, *topics: str) -> TxnOffsetCommitRequest:
    partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
    return TxnOffsetCommitRequest(
        transactional_id="tx",
        group_id=group,
        producer_id=1,
        producer_epoch=0,
        topics=[TxnOffsetCommitRequestTopic(name=each, partitions=[partition]) for each in topics],
    )


def marker(topic: str) -> WriteTxnMarkersRequest:
    end = WritableTxnMarker(
        producer_id=1,
        producer_epoch=0,
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[0])],
        coordinator_epoch=0,
    )
    return WriteTxnMarkersRequest(markers=[end])


RESOURCES = [(2, "open"), (2, "secret"), (4, "1001")]
DENIED_CONFIGS = {"open": NONE, "secret": TOPIC_FAILED, "1001": CLUSTER_FAILED}


class Case(NamedTuple):
    """The denials, a request, and the code of each of its entries ("" for the whole)."""

    denied: set[Denied]
    request: Request
    version: int
    answers: dict[str, ErrorCode]


CASES = {
    ApiKey.PRODUCE: Case(
        {(Operation.WRITE, TOPIC, "secret")}, producing("secret", "open"), 9, {"open": NONE, "secret": TOPIC_FAILED}
    ),
    ApiKey.FETCH: Case(
        {(Operation.READ, TOPIC, "secret")}, fetching_all("secret", "open"), 12, {"open": NONE, "secret": TOPIC_FAILED}
    ),
    ApiKey.LIST_OFFSETS: Case(
        {(Operation.DESCRIBE, TOPIC, "secret")},
        ListOffsetsRequest(
            replica_id=-1,
            topics=[
                ListOffsetsTopic(name=each, partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
                for each in ("open", "secret")
            ],
        ),
        7,
        {"open": NONE, "secret": TOPIC_FAILED},
    ),
    ApiKey.METADATA: Case(
        {(Operation.DESCRIBE, TOPIC, "secret"), (Operation.DESCRIBE, TOPIC, "unknown")},
        MetadataRequest(topics=[MetadataRequestTopic(name=each) for each in ("unknown", "secret", "open")]),
        9,
        {"open": NONE, "secret": TOPIC_FAILED, "unknown": TOPIC_FAILED},
    ),
    ApiKey.FIND_COORDINATOR: Case(
        {(Operation.DESCRIBE, GROUP, "secret")},
        FindCoordinatorRequest(coordinator_keys=["open", "secret"]),
        4,
        {"open": ErrorCode.COORDINATOR_NOT_AVAILABLE, "secret": GROUP_FAILED},
    ),
    ApiKey.LEADER_AND_ISR: Case(
        on_cluster(Operation.CLUSTER_ACTION),
        LeaderAndIsrRequest(controller_id=0, controller_epoch=9, live_leaders=()),
        7,
        {"": CLUSTER_FAILED},
    ),
    ApiKey.STOP_REPLICA: Case(
        on_cluster(Operation.CLUSTER_ACTION),
        StopReplicaRequest(controller_id=0, controller_epoch=9),
        4,
        {"": CLUSTER_FAILED},
    ),
    ApiKey.UPDATE_METADATA: Case(
        on_cluster(Operation.CLUSTER_ACTION),
        UpdateMetadataRequest(controller_id=0, controller_epoch=9, live_brokers=()),
        8,
        {"": CLUSTER_FAILED},
    ),
    ApiKey.OFFSET_COMMIT: Case(
        {(Operation.READ, TOPIC, "secret")},
        commit("g", "open", "secret"),
        8,
        {"open": UNFOUND, "secret": TOPIC_FAILED},
    ),
    ApiKey.OFFSET_FETCH: Case(
        {(Operation.DESCRIBE, GROUP, "secret")},
        OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=each, topics=None) for each in ("open", "secret")],
            topics=[OffsetFetchRequestTopic(name="open", partition_indexes=[0])],
        ),
        8,
        {"open": UNFOUND, "secret": GROUP_FAILED},
    ),
    ApiKey.JOIN_GROUP: Case(
        {(Operation.READ, GROUP, "secret")},
        JoinGroupRequest(
            group_id="secret", session_timeout_ms=10_000, member_id="", protocol_type="consumer", protocols=()
        ),
        7,
        {"": GROUP_FAILED},
    ),
    ApiKey.HEARTBEAT: Case(
        {(Operation.READ, GROUP, "secret")},
        HeartbeatRequest(group_id="secret", generation_id=1, member_id="m"),
        4,
        {"": GROUP_FAILED},
    ),
    ApiKey.LEAVE_GROUP: Case(
        {(Operation.READ, GROUP, "secret")}, LeaveGroupRequest(group_id="secret"), 4, {"": GROUP_FAILED}
    ),
    ApiKey.SYNC_GROUP: Case(
        {(Operation.READ, GROUP, "secret")},
        SyncGroupRequest(group_id="secret", generation_id=1, member_id="m", assignments=()),
        4,
        {"": GROUP_FAILED},
    ),
    ApiKey.DESCRIBE_GROUPS: Case(
        {(Operation.DESCRIBE, GROUP, "secret")},
        DescribeGroupsRequest(groups=["open", "secret"]),
        5,
        {"open": UNFOUND, "secret": GROUP_FAILED},
    ),
    # Another test covers the groups that are left out.
    ApiKey.LIST_GROUPS: Case(on_cluster(Operation.DESCRIBE), ListGroupsRequest(), 4, {"": NONE}),
    ApiKey.DELETE_GROUPS: Case(
        {(Operation.DELETE, GROUP, "secret")},
        DeleteGroupsRequest(groups_names=["open", "secret"]),
        2,
        {"open": UNFOUND, "secret": GROUP_FAILED},
    ),
    ApiKey.OFFSET_DELETE: Case(
        {(Operation.DELETE, GROUP, "secret")}, OffsetDeleteRequest(group_id="secret", topics=()), 0, {"": GROUP_FAILED}
    ),
    ApiKey.API_VERSIONS: Case(
        on_cluster(*Operation), ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3, {"": NONE}
    ),
    ApiKey.CREATE_TOPICS: Case(
        {(Operation.CREATE, TOPIC, "hidden"), *on_cluster(Operation.CREATE)},
        new_topics("hidden", "fresh"),
        7,
        {"fresh": NONE, "hidden": TOPIC_FAILED},
    ),
    ApiKey.DELETE_TOPICS: Case(
        {(Operation.DELETE, TOPIC, "secret"), (Operation.DELETE, TOPIC, "unknown")},
        DeleteTopicsRequest(
            topics=[DeleteTopicState(name=each) for each in ("open", "secret", "unknown")], timeout_ms=9999
        ),
        6,
        {"open": NONE, "secret": TOPIC_FAILED, "unknown": TOPIC_FAILED},
    ),
    ApiKey.DELETE_RECORDS: Case(
        {(Operation.DELETE, TOPIC, "secret")},
        DeleteRecordsRequest(
            topics=[
                DeleteRecordsTopic(name=each, partitions=[DeleteRecordsPartition(partition_index=0, offset=0)])
                for each in ("open", "secret")
            ],
            timeout_ms=1000,
        ),
        2,
        {"open": NONE, "secret": TOPIC_FAILED},
    ),
    ApiKey.INIT_PRODUCER_ID: Case(
        {(Operation.WRITE, TRANSACTION, "secret")},
        InitProducerIdRequest(transactional_id="secret", transaction_timeout_ms=1000),
        4,
        {"": TRANSACTION_FAILED},
    ),
    ApiKey.ADD_PARTITIONS_TO_TXN: Case(
        {(Operation.WRITE, TOPIC, "secret")},
        added("open", "secret"),
        3,
        {"open": ErrorCode.OPERATION_NOT_ATTEMPTED, "secret": TOPIC_FAILED},
    ),
    ApiKey.ADD_OFFSETS_TO_TXN: Case(
        {(Operation.READ, GROUP, "secret")}, added_offsets("secret"), 4, {"": GROUP_FAILED}
    ),
    ApiKey.END_TXN: Case(
        {(Operation.WRITE, TRANSACTION, "secret")},
        EndTxnRequest(transactional_id="secret", producer_id=1, producer_epoch=0, committed=True),
        4,
        {"": TRANSACTION_FAILED},
    ),
    ApiKey.WRITE_TXN_MARKERS: Case(
        on_cluster(Operation.ALTER, Operation.CLUSTER_ACTION), marker("open"), 1, {"open": CLUSTER_FAILED}
    ),
    ApiKey.TXN_OFFSET_COMMIT: Case(
        {(Operation.READ, TOPIC, "secret")},
        commit_in_transaction("g", "open", "secret"),
        4,
        {"open": UNFOUND, "secret": TOPIC_FAILED},
    ),
    ApiKey.DESCRIBE_TRANSACTIONS: Case(
        {(Operation.DESCRIBE, TRANSACTION, "secret")},
        DescribeTransactionsRequest(transactional_ids=["open", "secret"]),
        0,
        {"open": UNFOUND, "secret": TRANSACTION_FAILED},
    ),
    # Another test covers the transactional ids that are left out.
    ApiKey.LIST_TRANSACTIONS: Case(
        on_cluster(Operation.DESCRIBE), ListTransactionsRequest(state_filters=(), producer_id_filters=()), 1, {"": NONE}
    ),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Case(
        {(Operation.DESCRIBE, TOPIC, "secret"), *on_cluster(Operation.CLUSTER_ACTION)},
        OffsetForLeaderEpochRequest(
            topics=[
                OffsetForLeaderTopic(topic=each, partitions=[OffsetForLeaderPartition(partition=0, leader_epoch=0)])
                for each in ("open", "secret")
            ]
        ),
        4,
        {"open": NONE, "secret": TOPIC_FAILED},
    ),
    ApiKey.DESCRIBE_CONFIGS: Case(
        {(Operation.DESCRIBE_CONFIGS, TOPIC, "secret"), *on_cluster(Operation.DESCRIBE_CONFIGS)},
        DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
                for kind, name in RESOURCES
            ]
        ),
        4,
        DENIED_CONFIGS,
    ),
    ApiKey.ALTER_CONFIGS: Case(
        {(Operation.ALTER_CONFIGS, TOPIC, "secret"), *on_cluster(Operation.ALTER_CONFIGS)},
        alter_configs.AlterConfigsRequest(
            resources=[
                alter_configs.AlterConfigsResource(resource_type=kind, resource_name=name, configs=())
                for kind, name in RESOURCES
            ],
            validate_only=True,
        ),
        2,
        DENIED_CONFIGS,
    ),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Case(
        {(Operation.ALTER_CONFIGS, TOPIC, "secret"), *on_cluster(Operation.ALTER_CONFIGS)},
        incremental_alter_configs.IncrementalAlterConfigsRequest(
            resources=[
                incremental_alter_configs.AlterConfigsResource(resource_type=kind, resource_name=name, configs=())
                for kind, name in RESOURCES
            ],
            validate_only=True,
        ),
        1,
        DENIED_CONFIGS,
    ),
    ApiKey.ALTER_REPLICA_LOG_DIRS: Case(
        on_cluster(Operation.ALTER),
        AlterReplicaLogDirsRequest(
            dirs=[AlterReplicaLogDir(path="/x", topics=[AlterReplicaLogDirTopic(name="open", partitions=[0])])]
        ),
        2,
        {"open": CLUSTER_FAILED},
    ),
    ApiKey.DESCRIBE_LOG_DIRS: Case(
        on_cluster(Operation.DESCRIBE), DescribeLogDirsRequest(topics=None), 4, {"": CLUSTER_FAILED}
    ),
    ApiKey.CREATE_PARTITIONS: Case(
        {(Operation.ALTER, TOPIC, "secret")},
        CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=each, count=2, assignments=None) for each in ("open", "secret")],
            timeout_ms=1000,
            validate_only=True,
        ),
        3,
        {"open": NONE, "secret": TOPIC_FAILED},
    ),
    ApiKey.ELECT_LEADERS: Case(
        on_cluster(Operation.ALTER),
        ElectLeadersRequest(topic_partitions=None, timeout_ms=10_000),
        2,
        {"": CLUSTER_FAILED},
    ),
    ApiKey.CONTROLLED_SHUTDOWN: Case(
        on_cluster(Operation.CLUSTER_ACTION), ControlledShutdownRequest(broker_id=9), 3, {"": CLUSTER_FAILED}
    ),
    ApiKey.ALTER_PARTITION: Case(
        on_cluster(Operation.CLUSTER_ACTION), AlterPartitionRequest(broker_id=9, topics=()), 3, {"": CLUSTER_FAILED}
    ),
    ApiKey.ALLOCATE_PRODUCER_IDS: Case(
        on_cluster(Operation.CLUSTER_ACTION), AllocateProducerIdsRequest(broker_id=9), 0, {"": CLUSTER_FAILED}
    ),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: Case(
        on_cluster(Operation.ALTER), AlterPartitionReassignmentsRequest(topics=()), 0, {"": CLUSTER_FAILED}
    ),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: Case(
        on_cluster(Operation.DESCRIBE), ListPartitionReassignmentsRequest(), 0, {"": CLUSTER_FAILED}
    ),
    # Every client may describe the brokers. Another test covers the operations on the cluster.
    ApiKey.DESCRIBE_CLUSTER: Case(
        on_cluster(*Operation), DescribeClusterRequest(include_cluster_authorized_operations=False), 1, {"": NONE}
    ),
    ApiKey.DESCRIBE_PRODUCERS: Case(
        {(Operation.READ, TOPIC, "secret")},
        describe_producers.DescribeProducersRequest(
            topics=[describe_producers.TopicRequest(name=each, partition_indexes=[0]) for each in ("open", "secret")]
        ),
        0,
        {"open": NONE, "secret": TOPIC_FAILED},
    ),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: Case(
        {(Operation.DESCRIBE, TOPIC, "secret")},
        describe_topic_partitions.DescribeTopicPartitionsRequest(
            topics=[describe_topic_partitions.TopicRequest(name=each) for each in ("open", "secret")]
        ),
        0,
        {"open": NONE, "secret": TOPIC_FAILED},
    ),
}
