// The driver of kafka-go.
package main

import (
	"context"
	"crypto/tls"
	"errors"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"

	. "compatibility/answering"
)

const patience = 20 * time.Second

var codecs = map[string]kafka.Compression{
	"gzip": kafka.Gzip, "snappy": kafka.Snappy, "lz4": kafka.Lz4, "zstd": kafka.Zstd,
}

var balancers = map[string]kafka.GroupBalancer{
	"": kafka.RangeGroupBalancer{}, "range": kafka.RangeGroupBalancer{}, "roundrobin": kafka.RoundRobinGroupBalancer{},
}

func must[T any](found T, err error) T {
	Check(err)
	return found
}

func soon() context.Context {
	ctx, _ := context.WithTimeout(context.Background(), patience) //nolint:govet // it ends by itself
	return ctx
}

func codeOf(err error) int {
	var each kafka.WriteErrors
	if errors.As(err, &each) {
		for _, one := range each {
			if one != nil {
				err = one
			}
		}
	}
	var known kafka.Error
	if errors.As(err, &known) && known > 0 {
		return int(known)
	}
	return 0
}

func mechanism(c Connection) sasl.Mechanism {
	switch c.Mechanism {
	case "":
		return nil
	case "PLAIN":
		return plain.Mechanism{Username: c.User, Password: c.Password}
	case "SCRAM-SHA-256":
		return must(scram.Mechanism(scram.SHA256, c.User, c.Password))
	case "SCRAM-SHA-512":
		return must(scram.Mechanism(scram.SHA512, c.User, c.Password))
	default:
		panic(Lacks("it has no mechanism `" + c.Mechanism + "` of SASL"))
	}
}

func trusted(c Connection) *tls.Config {
	made := c.TLS()
	if made != nil {
		made.ServerName = "127.0.0.1"
	}
	return made
}

func dialer(c Connection) *kafka.Dialer {
	return &kafka.Dialer{Timeout: patience, TLS: trusted(c), SASLMechanism: mechanism(c)}
}

func transport(c Connection) *kafka.Transport {
	return &kafka.Transport{TLS: trusted(c), SASL: mechanism(c)}
}

func client(given Given) *kafka.Client {
	c := given.Connection
	return &kafka.Client{Addr: kafka.TCP(c.Bootstrap), Timeout: patience, Transport: transport(c)}
}

func produce(given Given) any {
	if given.Idempotent || given.Transaction != nil {
		panic(Lacks("its writer is neither idempotent nor transactional"))
	}
	acks := map[string]kafka.RequiredAcks{
		"0": kafka.RequireNone, "1": kafka.RequireOne, "all": kafka.RequireAll, "": kafka.RequireAll,
	}
	partition := 0
	messages := []kafka.Message{}
	offsets := []int64{}
	for _, each := range given.Records {
		messages = append(messages, message(each))
		partition = int(each.Partition)
	}
	// All records of a call have one partition, which a message cannot choose.
	chosen := kafka.BalancerFunc(func(kafka.Message, ...int) int { return partition })
	writer := &kafka.Writer{
		Addr: kafka.TCP(given.Connection.Bootstrap), Topic: given.Topic, Transport: transport(given.Connection),
		Balancer: chosen, RequiredAcks: acks[given.Acks], Compression: codecs[given.Codec],
		BatchBytes: MostBytes, BatchTimeout: 10 * time.Millisecond, BatchSize: 1000, MaxAttempts: 1,
		AllowAutoTopicCreation: true,
		Completion: func(sent []kafka.Message, _ error) {
			for _, each := range sent {
				offsets = append(offsets, each.Offset)
			}
		},
	}
	err := writer.WriteMessages(soon(), messages...)
	for try := 0; try < 50 && isCreated(err); try++ {
		// While a topic is being created, the client returns an error, and its user must retry.
		time.Sleep(100 * time.Millisecond)
		err = writer.WriteMessages(soon(), messages...)
	}
	Check(errors.Join(err, writer.Close()))
	if given.Acks == "0" {
		return nil
	}
	return offsets
}

func isCreated(err error) bool {
	return errors.Is(err, kafka.UnknownTopicOrPartition) || errors.Is(err, kafka.LeaderNotAvailable)
}

func message(given Record) kafka.Message {
	made := kafka.Message{Key: Raw(given.Key), Value: Raw(given.Value)}
	for _, each := range given.Headers {
		made.Headers = append(made.Headers, kafka.Header{Key: *each[0], Value: Raw(each[1])})
	}
	if given.Timestamp != nil {
		made.Time = time.UnixMilli(*given.Timestamp)
	}
	return made
}

func fetch(given Given) any {
	settings := kafka.ReaderConfig{
		Brokers: []string{given.Connection.Bootstrap}, Topic: given.Topic, Partition: int(given.Partition),
		MaxBytes: MostBytes, MaxWait: 200 * time.Millisecond, Dialer: dialer(given.Connection),
	}
	if given.Isolation == "read_committed" {
		settings.IsolationLevel = kafka.ReadCommitted
	}
	reader := kafka.NewReader(settings)
	defer reader.Close()
	if given.Start.Offset != nil {
		Check(reader.SetOffset(*given.Start.Offset))
	} else if given.Start.Time != nil {
		Check(reader.SetOffsetAt(soon(), time.UnixMilli(*given.Start.Time)))
	}
	found := []any{}
	for ctx := soon(); len(found) < int(given.Count); {
		each := must(reader.ReadMessage(ctx))
		headers := []any{}
		for _, header := range each.Headers {
			headers = append(headers, []any{header.Key, Plain(header.Value)})
		}
		found = append(found, []any{each.Offset, each.Time.UnixMilli(), Plain(each.Key), Plain(each.Value), headers})
	}
	return found
}

func join(given Given) *Member {
	balancer, ok := balancers[given.Strategy]
	switch {
	case given.Protocol == "consumer":
		panic(Lacks("it has only the classic group protocol"))
	case given.Instance != "":
		panic(Lacks("it has no static membership"))
	case !ok:
		panic(Lacks("it has no assignor `" + given.Strategy + "`"))
	case given.AutoCommit:
		return committing(given)
	}
	group := must(kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID: given.Group, Brokers: []string{given.Connection.Bootstrap}, Topics: []string{given.Topic},
		GroupBalancers: []kafka.GroupBalancer{balancer}, StartOffset: kafka.FirstOffset,
		HeartbeatInterval: 300 * time.Millisecond, SessionTimeout: 6 * time.Second, JoinGroupBackoff: 300 * time.Millisecond,
		Dialer: dialer(given.Connection),
	}))
	member := NewMember()
	state := &reading{given: given, member: member, next: map[string]map[int]int64{}}
	go func() {
		for {
			generation, err := group.Next(context.Background())
			if errors.Is(err, kafka.ErrGroupClosed) {
				return
			}
			if err == nil {
				state.follow(generation)
			}
		}
	}()
	member.Tell = func(told Given) {
		if told.What != "commit" {
			panic(Lacks("a member of a group can neither seek nor pause"))
		}
		Check(state.generation.CommitOffsets(state.next))
	}
	member.Leave = func() { Check(group.Close()) }
	return member
}

// reading is the work of a member in each generation of its group.
type reading struct {
	given      Given
	member     *Member
	generation *kafka.Generation
	next       map[string]map[int]int64
}

func (r *reading) follow(generation *kafka.Generation) {
	r.generation = generation
	held := map[string][]int32{}
	for topic, partitions := range generation.Assignments {
		for _, each := range partitions {
			held[topic] = append(held[topic], int32(each.ID))
			generation.Start(func(ctx context.Context) { r.read(ctx, topic, each) })
		}
	}
	r.member.HoldOnly(held)
}

func (r *reading) read(ctx context.Context, topic string, from kafka.PartitionAssignment) {
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{r.given.Connection.Bootstrap}, Topic: topic, Partition: from.ID,
		MaxWait: 200 * time.Millisecond, Dialer: dialer(r.given.Connection),
	})
	defer reader.Close()
	Check(reader.SetOffset(from.Offset))
	for {
		each, err := reader.ReadMessage(ctx)
		if err != nil {
			return
		}
		r.next[topic] = map[int]int64{from.ID: each.Offset + 1}
		r.member.Read(each.Topic, int32(each.Partition), each.Offset)
	}
}

// committing returns a member with automatic commits.
func committing(given Given) *Member {
	member := NewMember()
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{given.Connection.Bootstrap}, Topic: given.Topic, GroupID: given.Group,
		CommitInterval: 200 * time.Millisecond, StartOffset: kafka.FirstOffset, MaxWait: 200 * time.Millisecond,
		Dialer: dialer(given.Connection),
	})
	go func() {
		for {
			each, err := reader.ReadMessage(context.Background())
			if err != nil {
				return
			}
			member.Read(each.Topic, int32(each.Partition), each.Offset)
		}
	}()
	member.Leave = func() { Check(reader.Close()) }
	return member
}

func main() {
	calls := map[string]Call{"produce": produce, "fetch": fetch}
	AddMembers(calls, join)
	for name, call := range adminCalls {
		calls[name] = func(given Given) any { return call(client(given), given) }
	}
	Serve(calls, codeOf)
}
