"""Every API of this broker with its handler, bound to the parts that it needs.

Owns the list. Must not know what a handler does, nor how the parts are made, started and stopped.
Counterpart in Kafka: the constructor of KafkaApis.
"""

import random
from collections.abc import Callable, Collection, Mapping
from functools import partial
from types import ModuleType
from typing import Any, NamedTuple

from ottla.broker.cluster.config_alteration import ConfigAdmin
from ottla.broker.cluster.config_notifications import ConfigChanges
from ottla.broker.cluster.metadata_cache import MetadataCache
from ottla.broker.cluster.topic_configs import TopicConfigs
from ottla.broker.config.broker_config import RACK_AWARE
from ottla.broker.config.dynamic import DynamicConfig
from ottla.broker.controller.controller import Controller
from ottla.broker.fetch.sessions import FetchSessionCache
from ottla.broker.handlers import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    allocate_producer_ids,
    alter_configs,
    alter_partition,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    api_versions,
    controlled_shutdown,
    create_partitions,
    create_topics,
    delete_groups,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_topic_partitions,
    describe_transactions,
    elect_leaders,
    end_txn,
    fetch,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leader_and_isr,
    leave_group,
    list_groups,
    list_offsets,
    list_partition_reassignments,
    list_transactions,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    stop_replica,
    sync_group,
    txn_offset_commit,
    update_metadata,
    write_txn_markers,
)
from ottla.broker.internal_topics.committed_appends import CommittedAppends
from ottla.broker.loop.clock import Offload
from ottla.broker.net.session import RequestContext
from ottla.broker.replicas.manager import ReplicaManager
from ottla.broker.replicas.parts import ReplicaParts
from ottla.broker.replication.log_dir_moves import LogDirMoves
from ottla.broker.requests.authorizer import Access
from ottla.broker.requests.table import Bound, Handler, advertised
from ottla.broker.transactions.offsets import OffsetsVerifier
from ottla.broker.transactions.parts import Transactions
from ottla.coordinator.group_coordinator import GroupCoordinator
from ottla.wire.api_keys import ApiKey
from ottla.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from ottla.wire.messages.alter_partition import AlterPartitionRequest
from ottla.wire.messages.controlled_shutdown import ControlledShutdownRequest
from ottla.wire.messages.leader_and_isr import LeaderAndIsrRequest
from ottla.wire.messages.stop_replica import StopReplicaRequest
from ottla.wire.messages.update_metadata import UpdateMetadataRequest
from ottla.wire.messages.write_txn_markers import WriteTxnMarkersRequest
from ottla.wire.schema import Request
from ottla.zk.store import Session


class Parts(NamedTuple):
    """The parts that handlers get. The threads of `validate` validate batches, and do nothing else."""

    cluster_id: str
    dynamic: DynamicConfig
    access: Access
    session: Session
    metadata: MetadataCache
    controller: Controller
    topic_configs: TopicConfigs
    config_changes: ConfigChanges
    replicas: ReplicaManager
    replica_parts: ReplicaParts
    groups: GroupCoordinator
    transactions: Transactions
    moves: LogDirMoves
    validate: Offload


def client_handlers(parts: Parts) -> dict[ApiKey, Bound]:
    """Return the handlers of requests from the network, those of other brokers among them."""
    of_clients = _of_data(parts) | _of_groups(parts) | _of_configs(parts) | _describing(parts) | _controlling(parts)
    return with_api_versions(of_clients | _of_transactions(parts) | _controlled(parts))


def with_api_versions(handlers: Mapping[ApiKey, Bound]) -> dict[ApiKey, Bound]:
    """Return these handlers and the one of ApiVersions, which lists them all."""
    offered = advertised([*handlers, ApiKey.API_VERSIONS])
    own = (partial(api_versions.handle, offered=offered), partial(api_versions.error_response, offered=offered))
    return {**handlers, ApiKey.API_VERSIONS: own}


def _of_data(parts: Parts) -> dict[ApiKey, Bound]:
    config, replicas, access, of_replicas = parts.dynamic.static, parts.replicas, parts.access, parts.replica_parts
    slots = config.max_incremental_fetch_session_cache_slots
    sessions = FetchSessionCache(slots, of_replicas.signal, lambda: random.randrange(1, 1 << 31))
    common = {"replicas": replicas, "clock": of_replicas.clock, "start_soon": of_replicas.start_soon}
    return {
        ApiKey.PRODUCE: _bind(
            produce,
            **common,
            offload=parts.validate,
            slow_appends=of_replicas.slow_appends,
            verifier=parts.transactions.verifier,
        ),
        ApiKey.FETCH: _bind(
            fetch,
            **common,
            sessions=sessions,
            metadata=parts.metadata,
            fetch_max_bytes=config.fetch_max_bytes,
            access=access if access.authorizer else None,
            rack_aware=config.replica_selector_class == RACK_AWARE,
        ),
        ApiKey.LIST_OFFSETS: _bind(
            list_offsets,
            replicas=replicas,
            segment_checks=of_replicas.segment_checks,
            start_soon=of_replicas.start_soon,
        ),
        ApiKey.METADATA: _bind(
            metadata,
            metadata=parts.metadata,
            cluster_id=parts.cluster_id,
            auto_create=parts.controller.auto_create if config.auto_create_topics_enable else None,
            access=access,
        ),
        ApiKey.ALTER_REPLICA_LOG_DIRS: _bind(alter_replica_log_dirs, moves=parts.moves),
        ApiKey.DELETE_RECORDS: _bind(delete_records, replicas=replicas, metadata=parts.metadata),
        ApiKey.OFFSET_FOR_LEADER_EPOCH: _bind(offset_for_leader_epoch, replicas=replicas),
    }


def _of_groups(parts: Parts) -> dict[ApiKey, Bound]:
    groups, access = parts.groups, parts.access
    return {
        ApiKey.OFFSET_COMMIT: _bind(offset_commit, groups=groups, metadata=parts.metadata),
        ApiKey.OFFSET_FETCH: _bind(offset_fetch, groups=groups, access=access),
        ApiKey.FIND_COORDINATOR: _bind(
            find_coordinator,
            metadata=parts.metadata,
            partition_for={
                find_coordinator.GROUP: groups.runtime.partition_for,
                find_coordinator.TRANSACTION: parts.transactions.coordinator.runtime.partition_for,
            },
            create=parts.controller.auto_create,
        ),
        ApiKey.JOIN_GROUP: _bind(join_group, groups=groups),
        ApiKey.HEARTBEAT: _bind(heartbeat, groups=groups),
        ApiKey.LEAVE_GROUP: _bind(leave_group, groups=groups),
        ApiKey.SYNC_GROUP: _bind(sync_group, groups=groups),
        ApiKey.DESCRIBE_GROUPS: _bind(describe_groups, groups=groups, access=access),
        ApiKey.LIST_GROUPS: _bind(list_groups, groups=groups, access=access),
        ApiKey.DELETE_GROUPS: _bind(delete_groups, groups=groups),
        ApiKey.OFFSET_DELETE: _bind(offset_delete, groups=groups, metadata=parts.metadata, access=access),
    }


def _of_transactions(parts: Parts) -> dict[ApiKey, Bound]:
    transactions, groups, access, of_replicas = (
        parts.transactions.coordinator,
        parts.groups,
        parts.access,
        parts.replica_parts,
    )
    partition_for = groups.runtime.partition_for
    offsets_verifier = OffsetsVerifier(parts.transactions.verifier, parts.replicas, of_replicas.clock, partition_for)
    return {
        ApiKey.INIT_PRODUCER_ID: _bind(
            init_producer_id, producer_ids=parts.transactions.producer_ids, transactions=transactions
        ),
        ApiKey.ADD_PARTITIONS_TO_TXN: _bind(
            add_partitions_to_txn, transactions=transactions, metadata=parts.metadata, access=access
        ),
        ApiKey.ADD_OFFSETS_TO_TXN: _bind(
            add_offsets_to_txn,
            transactions=transactions,
            partition_for=partition_for,
            create=parts.controller.auto_create,
        ),
        ApiKey.END_TXN: _bind(end_txn, transactions=transactions),
        ApiKey.WRITE_TXN_MARKERS: _bind(
            write_txn_markers,
            replicas=parts.replicas,
            appends=CommittedAppends(parts.replicas, of_replicas),
            clock=of_replicas.clock,
            groups=groups,
        ),
        ApiKey.TXN_OFFSET_COMMIT: _bind(
            txn_offset_commit, groups=groups, metadata=parts.metadata, verify=offsets_verifier.verify
        ),
        ApiKey.DESCRIBE_TRANSACTIONS: _bind(describe_transactions, transactions=transactions, access=access),
        ApiKey.LIST_TRANSACTIONS: _bind(list_transactions, transactions=transactions, access=access),
    }


def _of_configs(parts: Parts) -> dict[ApiKey, Bound]:
    config_admin = ConfigAdmin(
        parts.session,
        parts.replica_parts.start_soon,
        parts.config_changes,
        metadata=parts.metadata,
        dynamic=parts.dynamic,
        broker_id=parts.replica_parts.broker_id,
    )
    return {
        ApiKey.ALTER_CONFIGS: _bind(alter_configs, config_admin=config_admin),
        ApiKey.INCREMENTAL_ALTER_CONFIGS: _bind(incremental_alter_configs, config_admin=config_admin),
        ApiKey.DESCRIBE_CONFIGS: _bind(
            describe_configs,
            metadata=parts.metadata,
            topic_configs=parts.topic_configs,
            dynamic=parts.dynamic,
            broker_id=parts.replica_parts.broker_id,
        ),
    }


def _describing(parts: Parts) -> dict[ApiKey, Bound]:
    """Return the handlers that only describe."""
    config = parts.dynamic.static
    return {
        ApiKey.DESCRIBE_LOG_DIRS: _bind(describe_log_dirs, logs=parts.replica_parts.logs, replicas=parts.replicas),
        ApiKey.LIST_PARTITION_REASSIGNMENTS: _bind(list_partition_reassignments, controller=parts.controller),
        ApiKey.DESCRIBE_CLUSTER: _bind(
            describe_cluster, metadata=parts.metadata, cluster_id=parts.cluster_id, access=parts.access
        ),
        ApiKey.DESCRIBE_PRODUCERS: _bind(describe_producers, replicas=parts.replicas, metadata=parts.metadata),
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: _bind(
            describe_topic_partitions,
            metadata=parts.metadata,
            max_partitions=config.max_request_partition_size_limit,
            access=parts.access,
        ),
    }


def _controlling(parts: Parts) -> dict[ApiKey, Bound]:
    """Return the handlers that call the controller."""
    controller, config = parts.controller, parts.dynamic.static
    return {
        ApiKey.ALLOCATE_PRODUCER_IDS: _bind(allocate_producer_ids, controller=controller),
        ApiKey.ALTER_PARTITION: _bind(alter_partition, controller=controller),
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: _bind(alter_partition_reassignments, controller=controller),
        ApiKey.CONTROLLED_SHUTDOWN: _bind(controlled_shutdown, controller=controller),
        ApiKey.CREATE_PARTITIONS: _bind(create_partitions, controller=controller),
        ApiKey.CREATE_TOPICS: _bind(create_topics, controller=controller, dynamic=parts.dynamic),
        ApiKey.DELETE_TOPICS: _bind(
            delete_topics,
            controller=controller,
            metadata=parts.metadata,
            delete_topic_enable=config.delete_topic_enable,
            access=parts.access,
        ),
        ApiKey.ELECT_LEADERS: _bind(elect_leaders, controller=controller, metadata=parts.metadata),
    }


def _controlled(parts: Parts) -> dict[ApiKey, Bound]:
    """Return the handlers of the controller's requests to this broker."""

    def metadata_changed(topics: Collection[str]) -> None:
        parts.controller.metadata_changed(topics)
        deleted = [topic for topic in topics if not parts.metadata.contains(topic)]
        if deleted:
            parts.groups.topics_deleted(deleted)

    own = {"replicas": parts.replicas, "fence": parts.replica_parts.fence}
    return {
        ApiKey.LEADER_AND_ISR: _bind(leader_and_isr, **own, topic_configs=parts.topic_configs),
        ApiKey.STOP_REPLICA: _bind(stop_replica, **own),
        ApiKey.UPDATE_METADATA: _bind(
            update_metadata,
            fence=parts.replica_parts.fence,
            topic_configs=parts.topic_configs,
            metadata=parts.metadata,
            changed=metadata_changed,
        ),
    }


def controller_handlers(parts: Parts) -> dict[type[Request], Callable[[Any], Any]]:
    """Return the handlers for this broker's own requests to the controller of this process."""
    return _local(_controlling(parts), AllocateProducerIdsRequest, AlterPartitionRequest, ControlledShutdownRequest)


def control_handlers(parts: Parts) -> dict[type[Request], Callable[[Any], Any]]:
    """Return the handlers for requests of the controller of this process, which needs no network."""
    return _local(_controlled(parts), LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest)


def transaction_handlers(parts: Parts) -> dict[type[Request], Callable[[Any], Any]]:
    """Return the handlers for requests of this broker's transactions to this broker itself."""
    return _local(_of_transactions(parts), AddPartitionsToTxnRequest, WriteTxnMarkersRequest)


def _local(bound: Mapping[ApiKey, Bound], *kinds: type[Request]) -> dict[type[Request], Callable[[Any], Any]]:
    return {kind: partial(_call_locally, bound[kind.api_key][0]) for kind in kinds}


def _bind(module: ModuleType, **collaborators: object) -> Bound:
    """Bind a handler to its parts. A wrong part fails at the first call: in the handler's tests, and in the node's."""
    return partial(module.handle, **collaborators), module.error_response


def _call_locally(handler: Handler, request: Request) -> Any:
    return handler(request, RequestContext(request.api_key, request.versions.highest, "controller"))
