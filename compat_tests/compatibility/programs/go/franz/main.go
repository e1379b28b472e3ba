// The driver of franz-go.
package main

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	. "compatibility/answering"
)

const patience = 20 * time.Second

var codecs = map[string]kgo.CompressionCodec{
	"":       kgo.NoCompression(),
	"none":   kgo.NoCompression(),
	"gzip":   kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(),
	"lz4":    kgo.Lz4Compression(),
	"zstd":   kgo.ZstdCompression(),
}

var balancers = map[string]kgo.GroupBalancer{
	"":                   kgo.RangeBalancer(),
	"range":              kgo.RangeBalancer(),
	"roundrobin":         kgo.RoundRobinBalancer(),
	"sticky":             kgo.StickyBalancer(),
	"cooperative-sticky": kgo.CooperativeStickyBalancer(),
}

func soon() context.Context {
	ctx, _ := context.WithTimeout(context.Background(), patience) //nolint:govet // it ends by itself
	return ctx
}

func codeOf(err error) int {
	var known *kerr.Error
	if errors.As(err, &known) {
		return int(known.Code)
	}
	return 0
}

func mechanism(c Connection) sasl.Mechanism {
	login := scram.Auth{User: c.User, Pass: c.Password}
	switch c.Mechanism {
	case "PLAIN":
		return plain.Auth{User: c.User, Pass: c.Password}.AsMechanism()
	case "SCRAM-SHA-256":
		return login.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return login.AsSha512Mechanism()
	default:
		return oauth.Auth{Token: c.Token}.AsMechanism()
	}
}

func client(given Given, more ...kgo.Opt) *kgo.Client {
	c := given.Connection
	options := append(more, kgo.SeedBrokers(c.Bootstrap), kgo.RetryTimeout(patience))
	if c.Ca != "" {
		options = append(options, kgo.DialTLSConfig(c.TLS()))
	}
	if c.Mechanism != "" {
		options = append(options, kgo.SASL(mechanism(c)))
	}
	made, err := kgo.NewClient(options...)
	Check(err)
	return made
}

func record(topic string, given Record) *kgo.Record {
	made := &kgo.Record{Topic: topic, Partition: given.Partition, Key: Raw(given.Key), Value: Raw(given.Value)}
	for _, each := range given.Headers {
		made.Headers = append(made.Headers, kgo.RecordHeader{Key: *each[0], Value: Raw(each[1])})
	}
	if given.Timestamp != nil {
		made.Timestamp = time.UnixMilli(*given.Timestamp)
	}
	return made
}

func produce(given Given) any {
	options := []kgo.Opt{
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchMaxBytes(MostBytes),
		kgo.ProducerBatchCompression(codecs[given.Codec]),
		kgo.AllowAutoTopicCreation(),
	}
	switch given.Acks {
	case "0":
		options = append(options, kgo.RequiredAcks(kgo.NoAck()))
	case "1":
		options = append(options, kgo.RequiredAcks(kgo.LeaderAck()))
	}
	if given.Transaction != nil {
		options = append(options, kgo.TransactionalID(given.Transaction.ID))
	} else if !given.Idempotent {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	producer := client(given, options...)
	defer producer.Close()
	if given.Transaction != nil {
		Check(producer.BeginTransaction())
	}
	records := []*kgo.Record{}
	for _, each := range given.Records {
		records = append(records, record(given.Topic, each))
	}
	Check(producer.ProduceSync(soon(), records...).FirstErr())
	if given.Transaction != nil {
		end(producer, given)
	}
	if given.Acks == "0" {
		return nil
	}
	offsets := []int64{}
	for _, each := range records {
		offsets = append(offsets, each.Offset)
	}
	return offsets
}

func end(producer *kgo.Client, given Given) {
	how := kgo.TryAbort
	if given.Transaction.End == "commit" {
		how = kgo.TryCommit
	}
	if given.Transaction.Offsets != nil {
		panic(Lacks("it commits offsets in a transaction only for members of the group"))
	}
	Check(producer.EndTransaction(soon(), how))
}

func fetch(given Given) any {
	at := kgo.NewOffset().AtStart()
	if given.Start.Offset != nil {
		at = kgo.NewOffset().At(*given.Start.Offset)
	} else if given.Start.Time != nil {
		at = kgo.NewOffset().AfterMilli(*given.Start.Time)
	}
	options := []kgo.Opt{
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{given.Topic: {given.Partition: at}}),
		kgo.FetchMaxPartitionBytes(MostBytes),
	}
	if given.Isolation == "read_committed" {
		options = append(options, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	}
	consumer := client(given, options...)
	defer consumer.Close()
	found := []any{}
	for ctx := soon(); len(found) < int(given.Count); {
		fetches := consumer.PollFetches(ctx)
		Check(fetches.Err())
		fetches.EachRecord(func(each *kgo.Record) {
			headers := []any{}
			for _, header := range each.Headers {
				headers = append(headers, []any{header.Key, Plain(header.Value)})
			}
			found = append(found, []any{each.Offset, each.Timestamp.UnixMilli(), Plain(each.Key), Plain(each.Value), headers})
		})
	}
	return found[:given.Count]
}

func join(given Given) *Member {
	member := NewMember()
	come := func(_ context.Context, _ *kgo.Client, came map[string][]int32) { member.Hold(came, nil) }
	gone := func(_ context.Context, _ *kgo.Client, went map[string][]int32) { member.Hold(nil, went) }
	options := []kgo.Opt{
		kgo.ConsumerGroup(given.Group),
		kgo.ConsumeTopics(given.Topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.OnPartitionsAssigned(come),
		kgo.OnPartitionsRevoked(gone),
		kgo.OnPartitionsLost(gone),
	}
	if given.Protocol == "consumer" {
		options = append(options, kgo.ServerSideBalancer())
	} else {
		options = append(options, kgo.Balancers(balancers[given.Strategy]))
		options = append(options, kgo.SessionTimeout(6*time.Second), kgo.HeartbeatInterval(300*time.Millisecond))
	}
	if given.Instance != "" {
		options = append(options, kgo.InstanceID(given.Instance))
	}
	if given.AutoCommit {
		options = append(options, kgo.AutoCommitInterval(200*time.Millisecond))
	} else {
		options = append(options, kgo.DisableAutoCommit())
	}
	consumer := client(given, options...)
	go func() {
		for {
			fetches := consumer.PollFetches(context.Background())
			if fetches.IsClientClosed() {
				return
			}
			if err := fetches.Err(); err != nil {
				member.Fail(err)
				return
			}
			fetches.EachRecord(func(each *kgo.Record) { member.Read(each.Topic, each.Partition, each.Offset) })
		}
	}()
	member.Tell = func(told Given) { tell(consumer, given, told) }
	member.Leave = consumer.Close
	return member
}

func tell(consumer *kgo.Client, joined, told Given) {
	part := map[string][]int32{told.Topic: {told.Partition}}
	switch told.What {
	case "commit":
		Check(consumer.CommitUncommittedOffsets(soon()))
	case "seek":
		seek(consumer, told.Topic, told.Partition, told.Offset)
	case "seek_to_beginning":
		found, err := kadm.NewClient(consumer).ListStartOffsets(soon(), joined.Topic)
		Check(err)
		found.Each(func(each kadm.ListedOffset) { seek(consumer, each.Topic, each.Partition, each.Offset) })
	case "seek_to_end":
		found, err := kadm.NewClient(consumer).ListEndOffsets(soon(), joined.Topic)
		Check(err)
		found.Each(func(each kadm.ListedOffset) { seek(consumer, each.Topic, each.Partition, each.Offset) })
	case "pause":
		consumer.PauseFetchPartitions(part)
	case "resume":
		consumer.ResumeFetchPartitions(part)
	}
}

func seek(consumer *kgo.Client, topic string, partition int32, offset int64) {
	at := kgo.EpochOffset{Epoch: -1, Offset: offset}
	consumer.SetOffsets(map[string]map[int32]kgo.EpochOffset{topic: {partition: at}})
}

func main() {
	calls := map[string]Call{"produce": produce, "fetch": fetch}
	AddMembers(calls, join)
	for name, call := range adminCalls {
		calls[name] = func(given Given) any {
			admin := kadm.NewClient(client(given))
			defer admin.Close()
			return call(admin, given)
		}
	}
	Serve(calls, codeOf)
}
