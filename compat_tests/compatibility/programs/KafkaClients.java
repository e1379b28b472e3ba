import com.fasterxml.jackson.databind.*;
import java.io.*;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.acl.*;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.quota.*;
import org.apache.kafka.common.resource.*;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** The driver of Kafka's Java client, for all versions. answering.py describes calls and answers. */
public class KafkaClients {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int MOST_BYTES = 1 << 25;
    private static final Duration PATIENCE = Duration.ofSeconds(20);
    private static final Map<String, Class<?>> ASSIGNORS = Map.of(
        "range", RangeAssignor.class, "roundrobin", RoundRobinAssignor.class,
        "sticky", StickyAssignor.class, "cooperative-sticky", CooperativeStickyAssignor.class);
    private static final Map<String, Call> CALLS = new HashMap<>();
    private static final Map<String, Member> MEMBERS = new HashMap<>();

    private interface Call {
        Object of(JsonNode given) throws Exception;
    }

    private interface AdminCall {
        Object of(Admin admin, JsonNode given) throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        CALLS.put("produce", KafkaClients::produce);
        CALLS.put("fetch", KafkaClients::fetch);
        CALLS.put("join", KafkaClients::join);
        CALLS.put("state", given -> MEMBERS.get(given.get("member").asText()).state());
        CALLS.put("tell", given -> MEMBERS.get(given.get("member").asText()).tell(given));
        CALLS.put("leave", given -> MEMBERS.remove(given.get("member").asText()).leave());
        aboutTopics();
        aboutGroups();
        aboutTheCluster();
        aboutUsers();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String answer = JSON.writeValueAsString(answer(JSON.readTree(line)));
            System.out.write((answer + "\n").getBytes(StandardCharsets.UTF_8));
            System.out.flush();
        }
        System.exit(0);
    }

    private static Object answer(JsonNode given) {
        Call call = CALLS.get(given.get("call").asText());
        if (call == null) {
            return Map.of("lacks", "it has no API for it");
        }
        try {
            return Collections.singletonMap("result", call.of(given));
        } catch (Throwable thrown) {
            Throwable cause = thrown instanceof ExecutionException ? thrown.getCause() : thrown;
            Errors error = Errors.forException(cause);
            Map<String, Object> told = new HashMap<>(Map.of("text", cause.toString()));
            told.put("code", error == Errors.UNKNOWN_SERVER_ERROR ? null : (int) error.code());
            return Map.of("error", told);
        }
    }

    private static Properties settings(JsonNode given) {
        JsonNode connection = given.get("connection");
        Properties made = new Properties();
        made.put("bootstrap.servers", connection.get("bootstrap").asText());
        made.put("security.protocol", text(connection, "protocol", "PLAINTEXT"));
        if (connection.has("ca")) {
            made.put("ssl.truststore.type", "PEM");
            made.put("ssl.truststore.location", connection.get("ca").asText());
        }
        if (connection.has("mechanism")) {
            String mechanism = connection.get("mechanism").asText();
            made.put("sasl.mechanism", mechanism);
            made.put("sasl.jaas.config", login(mechanism, connection));
        }
        return made;
    }

    private static String login(String mechanism, JsonNode connection) {
        String user = connection.get("user").asText();
        String security = "org.apache.kafka.common.security.";
        if (mechanism.equals("OAUTHBEARER")) {
            String claim = " required unsecuredLoginStringClaim_sub=\"" + user + "\";";
            return security + "oauthbearer.OAuthBearerLoginModule" + claim;
        }
        String module = mechanism.equals("PLAIN") ? "plain.PlainLoginModule" : "scram.ScramLoginModule";
        String password = connection.get("password").asText();
        return security + module + " required username=\"" + user + "\" password=\"" + password + "\";";
    }

    private static String text(JsonNode given, String name, String otherwise) {
        return given.hasNonNull(name) ? given.get(name).asText() : otherwise;
    }

    private static TopicPartition partition(JsonNode given) {
        return new TopicPartition(given.get("topic").asText(), given.path("partition").asInt(0));
    }

    private static <T> T done(Future<T> future) throws Exception {
        return future.get(PATIENCE.toSeconds(), TimeUnit.SECONDS);
    }

    private static byte[] raw(JsonNode text) {
        return text == null || text.isNull() ? null : text.asText().getBytes(StandardCharsets.UTF_8);
    }

    private static String plain(byte[] data) {
        return data == null ? null : new String(data, StandardCharsets.UTF_8);
    }

    // Records

    private static Object produce(JsonNode given) throws Exception {
        JsonNode transaction = given.get("transaction");
        Properties settings = settings(given);
        String acks = text(given, "acks", "all");
        settings.put("acks", acks);
        settings.put("compression.type", text(given, "codec", "none"));
        settings.put("enable.idempotence", transaction != null || given.path("idempotent").asBoolean());
        settings.put("max.request.size", MOST_BYTES);
        settings.put("max.block.ms", 10_000);
        if (transaction != null) {
            settings.put("transactional.id", transaction.get("id").asText());
        }
        ByteArraySerializer bytes = new ByteArraySerializer();
        List<Long> offsets = new ArrayList<>();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings, bytes, bytes)) {
            if (transaction != null) {
                producer.initTransactions();
                producer.beginTransaction();
            }
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (JsonNode each : given.get("records")) {
                sent.add(producer.send(record(given.get("topic").asText(), each)));
            }
            producer.flush();
            for (Future<RecordMetadata> each : sent) {
                offsets.add(done(each).offset());
            }
            if (transaction != null) {
                end(producer, transaction, partition(given));
            }
        }
        return acks.equals("0") ? null : offsets;
    }

    private static ProducerRecord<byte[], byte[]> record(String topic, JsonNode given) {
        List<Header> headers = new ArrayList<>();
        for (JsonNode each : given.path("headers")) {
            headers.add(new RecordHeader(each.get(0).asText(), raw(each.get(1))));
        }
        Long timestamp = given.has("timestamp") ? given.get("timestamp").asLong() : null;
        int partition = given.path("partition").asInt(0);
        byte[] key = raw(given.get("key"));
        return new ProducerRecord<>(topic, partition, timestamp, key, raw(given.get("value")), headers);
    }

    private static void end(KafkaProducer<byte[], byte[]> producer, JsonNode transaction, TopicPartition partition) {
        if (transaction.has("offsets")) {
            JsonNode offsets = transaction.get("offsets");
            producer.sendOffsetsToTransaction(
                Map.of(partition, new OffsetAndMetadata(offsets.get("offset").asLong())),
                new ConsumerGroupMetadata(offsets.get("group").asText()));
        }
        if (transaction.get("end").asText().equals("commit")) {
            producer.commitTransaction();
        } else {
            producer.abortTransaction();
        }
    }

    private static Object fetch(JsonNode given) {
        Properties settings = settings(given);
        settings.put("isolation.level", text(given, "isolation", "read_uncommitted"));
        settings.put("max.partition.fetch.bytes", MOST_BYTES);
        TopicPartition partition = partition(given);
        JsonNode start = given.path("start");
        int count = given.get("count").asInt();
        List<Object> found = new ArrayList<>();
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings, bytes, bytes)) {
            consumer.assign(List.of(partition));
            if (start.has("time")) {
                var offsets = consumer.offsetsForTimes(Map.of(partition, start.get("time").asLong()));
                consumer.seek(partition, offsets.get(partition).offset());
            } else if (start.has("offset")) {
                consumer.seek(partition, start.get("offset").asLong());
            } else {
                consumer.seekToBeginning(List.of(partition));
            }
            long deadline = System.nanoTime() + PATIENCE.toNanos();
            while (found.size() < count && System.nanoTime() < deadline) {
                for (ConsumerRecord<byte[], byte[]> each : consumer.poll(Duration.ofMillis(500))) {
                    found.add(told(each));
                }
            }
        }
        return found.subList(0, Math.min(count, found.size()));
    }

    private static List<Object> told(ConsumerRecord<byte[], byte[]> record) {
        List<Object> headers = new ArrayList<>();
        for (Header each : record.headers()) {
            headers.add(Arrays.asList(each.key(), plain(each.value())));
        }
        return Arrays.asList(record.offset(), record.timestamp(), plain(record.key()), plain(record.value()), headers);
    }

    private static Object join(JsonNode given) {
        Properties settings = settings(given);
        settings.put("group.id", given.get("group").asText());
        settings.put("enable.auto.commit", given.path("auto_commit").asBoolean());
        settings.put("auto.commit.interval.ms", 200);
        settings.put("auto.offset.reset", "earliest");
        settings.put("group.protocol", text(given, "protocol", "classic"));
        if (given.hasNonNull("instance")) {
            settings.put("group.instance.id", given.get("instance").asText());
        }
        if (text(given, "protocol", "classic").equals("classic")) {
            settings.put("session.timeout.ms", 6000);
            settings.put("heartbeat.interval.ms", 300);
            settings.put("partition.assignment.strategy", ASSIGNORS.get(text(given, "strategy", "range")).getName());
        }
        Member member = new Member(settings, given.get("topic").asText());
        MEMBERS.put(given.get("member").asText(), member);
        member.start();
        return null;
    }

    /** A consumer in a group, polled by a thread of its own, which also runs its commands. */
    private static final class Member extends Thread {
        private final Properties settings;
        private final String topic;
        private final ConcurrentLinkedQueue<Runnable> commands = new ConcurrentLinkedQueue<>();
        private final List<Object> read = new ArrayList<>();
        private KafkaConsumer<byte[], byte[]> consumer;
        private Set<TopicPartition> assigned = Set.of();
        private int changes;
        private String failure;
        private volatile boolean leaving;

        Member(Properties settings, String topic) {
            this.settings = settings;
            this.topic = topic;
            setDaemon(true);
        }

        @Override
        public void run() {
            ByteArrayDeserializer bytes = new ByteArrayDeserializer();
            try (KafkaConsumer<byte[], byte[]> made = new KafkaConsumer<>(settings, bytes, bytes)) {
                consumer = made;
                consumer.subscribe(List.of(topic));
                while (!leaving) {
                    for (Runnable each = commands.poll(); each != null; each = commands.poll()) {
                        each.run();
                    }
                    for (ConsumerRecord<byte[], byte[]> each : consumer.poll(Duration.ofMillis(100))) {
                        note(each);
                    }
                    hold(consumer.assignment());
                }
            } catch (Exception thrown) {
                synchronized (this) {
                    failure = thrown.toString();
                }
            }
        }

        private synchronized void note(ConsumerRecord<byte[], byte[]> record) {
            read.add(List.of(record.topic(), record.partition(), record.offset()));
        }

        private synchronized void hold(Set<TopicPartition> now) {
            if (!now.equals(assigned)) {
                changes++;
                assigned = Set.copyOf(now);
            }
        }

        synchronized Object state() {
            List<Object> held = new ArrayList<>();
            assigned.forEach(each -> held.add(List.of(each.topic(), each.partition())));
            Map<String, Object> state = new HashMap<>(Map.of("assigned", held, "changes", changes));
            state.put("read", List.copyOf(read));
            state.put("failure", failure);
            return state;
        }

        Object tell(JsonNode given) throws Exception {
            CompletableFuture<Object> done = new CompletableFuture<>();
            commands.add(() -> {
                try {
                    obey(given);
                    done.complete(null);
                } catch (RuntimeException thrown) {
                    done.completeExceptionally(thrown);
                }
            });
            return done(done);
        }

        private void obey(JsonNode given) {
            switch (given.get("what").asText()) {
                case "commit" -> consumer.commitSync();
                case "seek" -> consumer.seek(partition(given), given.get("offset").asLong());
                case "seek_to_beginning" -> consumer.seekToBeginning(consumer.assignment());
                case "seek_to_end" -> {
                    consumer.seekToEnd(consumer.assignment());
                    consumer.assignment().forEach(consumer::position);
                }
                case "pause" -> consumer.pause(List.of(partition(given)));
                default -> consumer.resume(List.of(partition(given)));
            }
        }

        Object leave() throws InterruptedException {
            leaving = true;
            join(PATIENCE.toMillis());
            return null;
        }
    }

    // Administration

    private static void byAdmin(String name, AdminCall call) {
        CALLS.put(name, given -> {
            try (Admin admin = Admin.create(settings(given))) {
                return call.of(admin, given);
            }
        });
    }

    private static Object nothing(KafkaFuture<?> future) throws Exception {
        done(future);
        return null;
    }

    private static List<String> topics(JsonNode given) {
        return List.of(given.get("topic").asText());
    }

    private static ConfigResource resource(JsonNode given) {
        return new ConfigResource(ConfigResource.Type.TOPIC, given.get("topic").asText());
    }

    private static void aboutTopics() {
        byAdmin("create_topic", (admin, given) -> {
            NewTopic topic = new NewTopic(given.get("topic").asText(), given.get("partitions").asInt(), (short) 1);
            Map<String, String> configs = JSON.convertValue(given.get("configs"), Map.class);
            return nothing(admin.createTopics(List.of(topic.configs(configs))).all());
        });
        byAdmin("delete_topic", (admin, given) -> nothing(admin.deleteTopics(topics(given)).all()));
        byAdmin("list_topics", (admin, given) -> done(admin.listTopics().names()));
        byAdmin("describe_topic", (admin, given) -> {
            var topic = done(admin.describeTopics(topics(given)).allTopicNames()).get(topics(given).get(0));
            return topic.partitions().stream().map(each -> List.of(
                each.partition(), each.leader().id(), each.replicas().stream().map(Node::id).toList())).toList();
        });
        byAdmin("add_partitions", (admin, given) -> nothing(admin.createPartitions(
            Map.of(given.get("topic").asText(), NewPartitions.increaseTo(given.get("count").asInt()))).all()));
        byAdmin("describe_configs", (admin, given) -> {
            var found = done(admin.describeConfigs(List.of(resource(given))).all()).get(resource(given));
            Map<String, String> values = new HashMap<>();
            given.get("keys").forEach(key -> values.put(key.asText(), found.get(key.asText()).value()));
            return values;
        });
        byAdmin("alter_configs", (admin, given) -> {
            Collection<AlterConfigOp> changes = new ArrayList<>();
            given.get("put").properties().forEach(each -> changes.add(new AlterConfigOp(
                new ConfigEntry(each.getKey(), each.getValue().asText()), AlterConfigOp.OpType.SET)));
            given.get("delete").forEach(key -> changes.add(new AlterConfigOp(
                new ConfigEntry(key.asText(), null), AlterConfigOp.OpType.DELETE)));
            return nothing(admin.incrementalAlterConfigs(Map.of(resource(given), changes)).all());
        });
        byAdmin("delete_records", (admin, given) -> nothing(admin.deleteRecords(
            Map.of(partition(given), RecordsToDelete.beforeOffset(given.get("before").asLong()))).all()));
        byAdmin("offsets", (admin, given) -> {
            JsonNode at = given.get("at");
            OffsetSpec spec = at.isNumber() ? OffsetSpec.forTimestamp(at.asLong())
                : at.asText().equals("earliest") ? OffsetSpec.earliest() : OffsetSpec.latest();
            return done(admin.listOffsets(Map.of(partition(given), spec)).all()).get(partition(given)).offset();
        });
    }

    private static void aboutGroups() {
        byAdmin("list_groups", (admin, given) ->
            done(admin.listConsumerGroups().all()).stream().map(each -> each.groupId()).toList());
        byAdmin("describe_group", (admin, given) -> {
            String group = given.get("group").asText();
            var found = done(admin.describeConsumerGroups(List.of(group)).all()).get(group);
            return Map.of("state", found.state().toString(), "members", found.members().size());
        });
        byAdmin("group_offsets", (admin, given) -> {
            List<Object> found = new ArrayList<>();
            done(admin.listConsumerGroupOffsets(given.get("group").asText()).partitionsToOffsetAndMetadata())
                .forEach((each, at) -> found.add(List.of(each.topic(), each.partition(), at.offset())));
            return found;
        });
        byAdmin("alter_group_offsets", (admin, given) -> nothing(admin.alterConsumerGroupOffsets(
            given.get("group").asText(),
            Map.of(partition(given), new OffsetAndMetadata(given.get("offset").asLong()))).all()));
        byAdmin("delete_group_offsets", (admin, given) -> nothing(
            admin.deleteConsumerGroupOffsets(given.get("group").asText(), Set.of(partition(given))).all()));
        byAdmin("delete_group", (admin, given) -> nothing(
            admin.deleteConsumerGroups(List.of(given.get("group").asText())).all()));
    }

    private static void aboutTheCluster() {
        byAdmin("describe_cluster", (admin, given) -> {
            var found = admin.describeCluster();
            return Map.of(
                "id", done(found.clusterId()),
                "brokers", done(found.nodes()).size(),
                "controller", done(found.controller()).id());
        });
        byAdmin("log_dirs", (admin, given) -> {
            List<Object> found = new ArrayList<>();
            for (LogDirDescription each : done(admin.describeLogDirs(List.of(1)).allDescriptions()).get(1).values()) {
                each.replicaInfos().forEach((partition, info) -> {
                    if (partition.equals(partition(given))) {
                        found.add(List.of(partition.topic(), partition.partition(), info.size()));
                    }
                });
            }
            return found;
        });
        byAdmin("elect_leader", (admin, given) ->
            nothing(admin.electLeaders(ElectionType.PREFERRED, Set.of(partition(given))).all()));
        byAdmin("reassign", (admin, given) -> {
            List<Integer> replicas = JSON.convertValue(given.get("replicas"), List.class);
            return nothing(admin.alterPartitionReassignments(
                Map.of(partition(given), Optional.of(new NewPartitionReassignment(replicas)))).all());
        });
        byAdmin("reassignments", (admin, given) ->
            done(admin.listPartitionReassignments(Set.of(partition(given))).reassignments()).keySet().stream()
                .map(each -> List.of(each.topic(), each.partition())).toList());
    }

    private static AclBinding acl(JsonNode given) {
        return new AclBinding(
            new ResourcePattern(ResourceType.TOPIC, given.get("topic").asText(), PatternType.LITERAL),
            new AccessControlEntry(
                "User:" + given.get("user").asText(), "*", AclOperation.WRITE, AclPermissionType.DENY));
    }

    private static ClientQuotaEntity entity(JsonNode given) {
        return new ClientQuotaEntity(Map.of(ClientQuotaEntity.USER, given.get("user").asText()));
    }

    private static ScramMechanism mechanism(JsonNode given) {
        return ScramMechanism.fromMechanismName(given.get("mechanism").asText());
    }

    private static void aboutUsers() {
        byAdmin("create_acl", (admin, given) -> nothing(admin.createAcls(List.of(acl(given))).all()));
        byAdmin("describe_acls", (admin, given) -> done(admin.describeAcls(acl(given).toFilter()).values()).stream()
            .map(AclBinding::entry)
            .map(each -> List.of(each.principal(), each.operation().name(), each.permissionType().name()))
            .toList());
        byAdmin("delete_acl", (admin, given) -> done(admin.deleteAcls(List.of(acl(given).toFilter())).all()).size());
        byAdmin("alter_quota", (admin, given) -> nothing(admin.alterClientQuotas(List.of(new ClientQuotaAlteration(
            entity(given),
            List.of(new ClientQuotaAlteration.Op(given.get("key").asText(), given.get("value").asDouble()))))).all()));
        byAdmin("describe_quota", (admin, given) -> {
            var user = ClientQuotaFilterComponent.ofEntity(ClientQuotaEntity.USER, given.get("user").asText());
            var found = done(admin.describeClientQuotas(ClientQuotaFilter.containsOnly(List.of(user))).entities());
            return found.getOrDefault(entity(given), Map.of());
        });
        byAdmin("alter_scram", (admin, given) -> {
            var info = new ScramCredentialInfo(mechanism(given), 4096);
            String user = given.get("user").asText();
            var wanted = new UserScramCredentialUpsertion(user, info, given.get("password").asText());
            return nothing(admin.alterUserScramCredentials(List.of(wanted)).all());
        });
        byAdmin("describe_scram", (admin, given) -> {
            String user = given.get("user").asText();
            return done(admin.describeUserScramCredentials(List.of(user)).all()).get(user).credentialInfos().stream()
                .map(each -> each.mechanism().mechanismName()).toList();
        });
        byAdmin("create_token", (admin, given) ->
            done(admin.createDelegationToken().delegationToken()).tokenInfo().tokenId());
        byAdmin("tokens", (admin, given) -> done(admin.describeDelegationToken().delegationTokens()).stream()
            .map(each -> each.tokenInfo().tokenId()).toList());
    }
}
