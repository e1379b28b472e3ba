// The driver of KafkaJS; answering.py describes calls and answers.
"use strict";

const fs = require("fs");
const readline = require("readline");
const kafkajs = require("kafkajs");

const { Kafka, CompressionTypes, PartitionAssigners, logLevel } = kafkajs;
const PATIENCE_MS = 20000;
const MOST_BYTES = 1 << 25;
const TOPIC_ALREADY_EXISTS = 36;

class Lacks extends Error {}

const text = (data) => (data === null || data === undefined ? null : data.toString());

function codeOf(error) {
  for (let each = error; each; each = each.cause || each.originalError || (each.errors || [])[0]) {
    if (Number.isInteger(each.code) && each.code > 0) return each.code;
  }
  return null;
}

function client({ connection }) {
  const settings = {
    brokers: [connection.bootstrap],
    logLevel: logLevel.NOTHING,
    retry: { retries: 8, initialRetryTime: 100, maxRetryTime: 1000 },
  };
  if (connection.ca) settings.ssl = { ca: [fs.readFileSync(connection.ca, "utf8")] };
  if (connection.mechanism) {
    settings.sasl = {
      mechanism: connection.mechanism.toLowerCase(),
      username: connection.user,
      password: connection.password,
    };
    if (connection.token) settings.sasl.oauthBearerProvider = async () => ({ value: connection.token });
  }
  return new Kafka(settings);
}

// Records

function headersOf(record) {
  const made = {};
  for (const [name, value] of record.headers || []) {
    if (name in made) throw new Lacks("its headers are an object, which has no order of repeated names");
    if (value === null) throw new Lacks("its headers must have values");
    made[name] = value;
  }
  return made;
}

async function produce(given) {
  const codec = { none: CompressionTypes.None, gzip: CompressionTypes.GZIP }[given.codec || "none"];
  if (codec === undefined) throw new Lacks("its only codec is gzip; others are third-party packages");
  const { transaction } = given;
  const messages = given.records.map((each) => ({
    key: each.key,
    value: each.value === undefined ? null : each.value,
    headers: headersOf(each),
    partition: each.partition || 0,
    ...(each.timestamp === undefined ? {} : { timestamp: String(each.timestamp) }),
  }));
  const producer = client(given).producer({
    idempotent: Boolean(given.idempotent || transaction),
    maxInFlightRequests: 1,
    ...(transaction ? { transactionalId: transaction.id } : {}),
  });
  const wanted = { topic: given.topic, acks: { 0: 0, 1: 1 }[given.acks] ?? -1, compression: codec, messages };
  await producer.connect();
  try {
    if (transaction) return await inTransaction(producer, given, wanted);
    const [found] = await producer.send(wanted);
    if (given.acks === "0") return null;
    return messages.map((_, number) => Number(found.baseOffset) + number);
  } finally {
    await producer.disconnect();
  }
}

async function inTransaction(producer, { topic, transaction }, wanted) {
  const open = await producer.transaction();
  await open.send(wanted);
  if (transaction.offsets) {
    const partitions = [{ partition: 0, offset: String(transaction.offsets.offset) }];
    await open.sendOffsets({ consumerGroupId: transaction.offsets.group, topics: [{ topic, partitions }] });
  }
  await (transaction.end === "commit" ? open.commit() : open.abort());
  return null;
}

async function fetch(given) {
  const { topic, count, start } = given;
  const partition = given.partition || 0;
  const made = client(given);
  const consumer = made.consumer({
    groupId: `${topic}-by-assignment-${Math.random()}`,
    readUncommitted: given.isolation !== "read_committed",
    maxBytesPerPartition: MOST_BYTES,
    maxBytes: MOST_BYTES,
    maxWaitTimeInMs: 200,
  });
  let offset = "-2";
  if (start && start.offset !== undefined) offset = String(start.offset);
  if (start && start.time !== undefined) offset = String(await offsets({ ...given, at: start.time }));
  const found = [];
  await consumer.connect();
  try {
    await consumer.subscribe({ topic, fromBeginning: true });
    await new Promise((resolve, reject) => {
      const late = setTimeout(() => reject(new Error("it took too long")), PATIENCE_MS);
      const eachMessage = async ({ partition: from, message }) => {
        if (from === partition) found.push(told(message));
        if (found.length >= count) {
          clearTimeout(late);
          resolve();
        }
      };
      consumer.run({ eachMessage, autoCommit: false }).catch(reject);
      consumer.seek({ topic, partition, offset });
    });
  } finally {
    await consumer.disconnect();
  }
  return found.slice(0, count);
}

function told(message) {
  const headers = Object.entries(message.headers || {}).flatMap(([name, values]) =>
    [values].flat().map((value) => [name, text(value)]),
  );
  return [Number(message.offset), Number(message.timestamp), text(message.key), text(message.value), headers];
}

async function offsets({ topic, at, partition, ...given }) {
  return byAdmin(given, async (admin) => {
    const look = typeof at === "number" ? admin.fetchTopicOffsetsByTimestamp(topic, at) : admin.fetchTopicOffsets(topic);
    const found = (await look).find((each) => each.partition === (partition || 0));
    return Number(at === "earliest" ? found.low : found.offset);
  });
}

// Groups

const members = {};

async function join(given) {
  if (given.protocol === "consumer") throw new Lacks("it has only the classic group protocol");
  if (given.instance) throw new Lacks("it has no static membership");
  if (![undefined, "roundrobin"].includes(given.strategy)) throw new Lacks(`it has no assignor \`${given.strategy}\``);
  const consumer = client(given).consumer({
    groupId: given.group,
    sessionTimeout: 6000,
    heartbeatInterval: 300,
    maxWaitTimeInMs: 200,
    partitionAssigners: [PartitionAssigners.roundRobin],
  });
  const member = { given, consumer, assigned: {}, read: [], changes: 0, failure: null, next: {}, topic: given.topic };
  members[given.member] = member;
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    member.assigned = payload.memberAssignment;
    member.changes += 1;
  });
  consumer.on(consumer.events.CRASH, ({ payload }) => {
    member.failure = String(payload.error);
  });
  await consumer.connect();
  await consumer.subscribe({ topic: given.topic, fromBeginning: true });
  await consumer.run({
    autoCommit: Boolean(given.auto_commit),
    autoCommitInterval: 200,
    eachMessage: async ({ topic, partition, message }) => {
      member.read.push([topic, partition, Number(message.offset)]);
      member.next[partition] = { topic, partition, offset: String(Number(message.offset) + 1) };
    },
  });
  return null;
}

async function state({ member }) {
  const { assigned, read, changes, failure } = members[member];
  const held = Object.entries(assigned).flatMap(([topic, partitions]) => partitions.map((each) => [topic, each]));
  return { assigned: held, read, changes, failure };
}

async function tell({ member, what, topic, partition, offset }) {
  const { given, consumer, next, assigned } = members[member];
  const seekAll = (to) => {
    for (const [name, partitions] of Object.entries(assigned)) {
      for (const each of partitions) consumer.seek({ topic: name, partition: each, offset: to });
    }
  };
  const actions = {
    commit: () => consumer.commitOffsets(Object.values(next)),
    seek: () => consumer.seek({ topic, partition, offset: String(offset) }),
    seek_to_beginning: () => seekAll("-2"),
    seek_to_end: async () => seekAll(String(await offsets({ ...given, at: "latest" }))),
    pause: () => consumer.pause([{ topic, partitions: [partition] }]),
    resume: () => consumer.resume([{ topic, partitions: [partition] }]),
  };
  await actions[what]();
  return null;
}

async function leave({ member }) {
  await members[member].consumer.disconnect();
  delete members[member];
  return null;
}

// Administration

async function byAdmin(given, call) {
  const admin = client(given).admin();
  await admin.connect();
  try {
    return (await call(admin, given)) ?? null;
  } finally {
    await admin.disconnect();
  }
}

const { AclOperationTypes, AclPermissionTypes, AclResourceTypes, ConfigResourceTypes, ResourcePatternTypes } = kafkajs;
const entries = (configs) => Object.entries(configs).map(([name, value]) => ({ name, value }));
const nameOf = (names, number) => Object.keys(names).find((each) => names[each] === number);
const acl = ({ user, topic }) => ({
  resourceType: AclResourceTypes.TOPIC,
  resourceName: topic,
  resourcePatternType: ResourcePatternTypes.LITERAL,
  principal: `User:${user}`,
  host: "*",
  operation: AclOperationTypes.WRITE,
  permissionType: AclPermissionTypes.DENY,
});

const ADMIN = {
  create_topic: async (admin, { topic, partitions, configs }) => {
    const wanted = { topic, numPartitions: partitions, replicationFactor: 1, configEntries: entries(configs) };
    const created = await admin.createTopics({ topics: [wanted] });
    // KafkaJS returns false in place of an error.
    if (!created) throw Object.assign(new Error("the topic exists"), { code: TOPIC_ALREADY_EXISTS });
  },
  delete_topic: (admin, { topic }) => admin.deleteTopics({ topics: [topic] }),
  list_topics: (admin) => admin.listTopics(),
  describe_topic: async (admin, { topic }) => {
    const { topics } = await admin.fetchTopicMetadata({ topics: [topic] });
    const found = topics[0].partitions.map((each) => [each.partitionId, each.leader, each.replicas]);
    return found.sort((one, other) => one[0] - other[0]);
  },
  add_partitions: async (admin, { topic, count }) => {
    await admin.createPartitions({ topicPartitions: [{ topic, count }] });
  },
  describe_configs: async (admin, { topic, keys }) => {
    const resources = [{ type: ConfigResourceTypes.TOPIC, name: topic, configNames: keys }];
    const found = await admin.describeConfigs({ includeSynonyms: false, resources });
    return Object.fromEntries(found.resources[0].configEntries.map((each) => [each.configName, each.configValue]));
  },
  replace_configs: async (admin, { topic, configs }) => {
    const resources = [{ type: ConfigResourceTypes.TOPIC, name: topic, configEntries: entries(configs) }];
    await admin.alterConfigs({ resources });
  },
  delete_records: async (admin, { topic, partition, before }) => {
    // Because otherwise the client knows no leaders.
    await admin.fetchTopicOffsets(topic);
    await admin.deleteTopicRecords({ topic, partitions: [{ partition, offset: String(before) }] });
  },
  list_groups: async (admin) => (await admin.listGroups()).groups.map((each) => each.groupId),
  describe_group: async (admin, { group }) => {
    const [found] = (await admin.describeGroups([group])).groups;
    return { state: found.state, members: found.members.length };
  },
  group_offsets: async (admin, { group, topic }) => {
    const found = await admin.fetchOffsets({ groupId: group, topics: [topic] });
    return found.flatMap((each) => each.partitions.map((at) => [each.topic, at.partition, Number(at.offset)]));
  },
  alter_group_offsets: (admin, { group, topic, partition, offset }) =>
    admin.setOffsets({ groupId: group, topic, partitions: [{ partition, offset: String(offset) }] }),
  reset_group_offsets: () => {
    throw new Lacks("it commits the number that stands for the earliest offset, which only KafkaJS understands");
  },
  delete_group: async (admin, { group }) => {
    await admin.deleteGroups([group]);
  },
  describe_cluster: async (admin) => {
    const found = await admin.describeCluster();
    return { id: found.clusterId, brokers: found.brokers.length, controller: found.controller };
  },
  reassign: async (admin, { topic, replicas }) => {
    await admin.alterPartitionReassignments({ topics: [{ topic, partitionAssignment: [{ partition: 0, replicas }] }] });
  },
  reassignments: async (admin, { topic }) => {
    const found = await admin.listPartitionReassignments({ topics: [{ topic, partitions: [0] }] });
    return found.topics.flatMap((each) => each.partitions.map((at) => [each.topic ?? each.name, at.partition]));
  },
  create_acl: async (admin, given) => {
    await admin.createAcls({ acl: [acl(given)] });
  },
  describe_acls: async (admin, given) =>
    (await admin.describeAcls(acl(given))).resources.flatMap((resource) =>
      resource.acls.map((each) => [
        each.principal,
        nameOf(AclOperationTypes, each.operation),
        nameOf(AclPermissionTypes, each.permissionType),
      ]),
    ),
  delete_acl: async (admin, given) => (await admin.deleteAcls({ filters: [acl(given)] })).filterResponses[0].matchingAcls.length,
};

const CALLS = { produce, fetch, offsets, join, state, tell, leave };
for (const [name, call] of Object.entries(ADMIN)) CALLS[name] = (given) => byAdmin(given, call);

async function answer({ call, ...given }) {
  try {
    if (!CALLS[call]) throw new Lacks("it has no API for it");
    return { result: await CALLS[call](given) };
  } catch (error) {
    if (error instanceof Lacks) return { lacks: error.message };
    return { error: { code: codeOf(error), text: String(error) } };
  }
}

async function main() {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    process.stdout.write(`${JSON.stringify(await answer(JSON.parse(line)))}\n`);
  }
  process.exit(0);
}

process.on("unhandledRejection", () => {});
main();
