// The driver of sarama.
package main

import (
	"context"
	"errors"
	"time"

	"github.com/IBM/sarama"
	"github.com/xdg-go/scram"

	. "compatibility/answering"
)

const patience = 20 * time.Second

var codecs = map[string]sarama.CompressionCodec{
	"":       sarama.CompressionNone,
	"none":   sarama.CompressionNone,
	"gzip":   sarama.CompressionGZIP,
	"snappy": sarama.CompressionSnappy,
	"lz4":    sarama.CompressionLZ4,
	"zstd":   sarama.CompressionZSTD,
}

var strategies = map[string]func() sarama.BalanceStrategy{
	"":                   sarama.NewBalanceStrategyRange,
	"range":              sarama.NewBalanceStrategyRange,
	"roundrobin":         sarama.NewBalanceStrategyRoundRobin,
	"sticky":             sarama.NewBalanceStrategySticky,
	"cooperative-sticky": sarama.NewBalanceStrategyCooperativeSticky,
}

func must[T any](found T, err error) T {
	Check(err)
	return found
}

func codeOf(err error) int {
	var known sarama.KError
	var each sarama.ProducerErrors
	if errors.As(err, &each) {
		err = each[0].Err
	}
	if errors.As(err, &known) && known > 0 {
		return int(known)
	}
	return 0
}

type exchange struct {
	*scram.ClientConversation
	hash scram.HashGeneratorFcn
}

func (e *exchange) Begin(user, password, authorization string) error {
	client, err := e.hash.NewClient(user, password, authorization)
	if err == nil {
		e.ClientConversation = client.NewConversation()
	}
	return err
}

type token string

func (t token) Token() (*sarama.AccessToken, error) {
	return &sarama.AccessToken{Token: string(t)}, nil
}

func config(c Connection) *sarama.Config {
	made := sarama.NewConfig()
	made.Version = sarama.MaxVersion
	made.Consumer.Fetch.Default = MostBytes
	made.Consumer.Return.Errors = true
	made.Producer.MaxMessageBytes = MostBytes
	made.Producer.Return.Successes = true
	made.Producer.Partitioner = sarama.NewManualPartitioner
	if c.Ca != "" {
		made.Net.TLS.Enable = true
		made.Net.TLS.Config = c.TLS()
	}
	if c.Mechanism != "" {
		made.Net.SASL.Enable = true
		made.Net.SASL.Mechanism = sarama.SASLMechanism(c.Mechanism)
		made.Net.SASL.User, made.Net.SASL.Password = c.User, c.Password
		made.Net.SASL.TokenProvider = token(c.Token)
		hash := map[string]scram.HashGeneratorFcn{"SCRAM-SHA-256": scram.SHA256, "SCRAM-SHA-512": scram.SHA512}[c.Mechanism]
		made.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &exchange{hash: hash} }
	}
	return made
}

func where(given Given) []string {
	return []string{given.Connection.Bootstrap}
}

func encoded(text *string) sarama.Encoder {
	if text == nil {
		return nil
	}
	return sarama.StringEncoder(*text)
}

func produce(given Given) any {
	made := config(given.Connection)
	made.Producer.RequiredAcks = map[string]sarama.RequiredAcks{
		"0": sarama.NoResponse, "1": sarama.WaitForLocal, "all": sarama.WaitForAll, "": sarama.WaitForAll,
	}[given.Acks]
	made.Producer.Compression = codecs[given.Codec]
	if given.Idempotent || given.Transaction != nil {
		made.Producer.Idempotent = true
		made.Net.MaxOpenRequests = 1
	}
	if given.Transaction != nil {
		made.Producer.Transaction.ID = given.Transaction.ID
	}
	producer := must(sarama.NewSyncProducer(where(given), made))
	defer producer.Close()
	if given.Transaction != nil {
		Check(producer.BeginTxn())
	}
	messages := []*sarama.ProducerMessage{}
	for _, each := range given.Records {
		messages = append(messages, message(given.Topic, each))
	}
	Check(producer.SendMessages(messages))
	if given.Transaction != nil {
		end(producer, given)
	}
	if given.Acks == "0" {
		return nil
	}
	offsets := []int64{}
	for _, each := range messages {
		offsets = append(offsets, each.Offset)
	}
	return offsets
}

func message(topic string, given Record) *sarama.ProducerMessage {
	made := &sarama.ProducerMessage{
		Topic: topic, Partition: given.Partition, Key: encoded(given.Key), Value: encoded(given.Value),
	}
	for _, each := range given.Headers {
		made.Headers = append(made.Headers, sarama.RecordHeader{Key: []byte(*each[0]), Value: Raw(each[1])})
	}
	if given.Timestamp != nil {
		made.Timestamp = time.UnixMilli(*given.Timestamp)
	}
	return made
}

func end(producer sarama.SyncProducer, given Given) {
	if offsets := given.Transaction.Offsets; offsets != nil {
		at := []*sarama.PartitionOffsetMetadata{{Partition: given.Partition, Offset: offsets.Offset, LeaderEpoch: -1}}
		Check(producer.AddOffsetsToTxn(map[string][]*sarama.PartitionOffsetMetadata{given.Topic: at}, offsets.Group))
	}
	if given.Transaction.End == "commit" {
		Check(producer.CommitTxn())
	} else {
		Check(producer.AbortTxn())
	}
}

func fetch(given Given) any {
	made := config(given.Connection)
	if given.Isolation == "read_committed" {
		made.Consumer.IsolationLevel = sarama.ReadCommitted
	}
	client := must(sarama.NewClient(where(given), made))
	defer client.Close()
	at := sarama.OffsetOldest
	if given.Start.Offset != nil {
		at = *given.Start.Offset
	} else if given.Start.Time != nil {
		at = must(client.GetOffset(given.Topic, given.Partition, *given.Start.Time))
	}
	consumer := must(sarama.NewConsumerFromClient(client))
	defer consumer.Close()
	reader := must(consumer.ConsumePartition(given.Topic, given.Partition, at))
	defer reader.AsyncClose()
	found := []any{}
	late := time.After(patience)
	for len(found) < int(given.Count) {
		select {
		case each := <-reader.Messages():
			headers := []any{}
			for _, header := range each.Headers {
				headers = append(headers, []any{string(header.Key), Plain(header.Value)})
			}
			found = append(found, []any{each.Offset, each.Timestamp.UnixMilli(), Plain(each.Key), Plain(each.Value), headers})
		case err := <-reader.Errors():
			Check(err.Err)
		case <-late:
			Check(ErrLate)
		}
	}
	return found
}

func offsets(given Given) any {
	client := must(sarama.NewClient(where(given), config(given.Connection)))
	defer client.Close()
	at := map[string]int64{"earliest": sarama.OffsetOldest, "latest": sarama.OffsetNewest}[given.At.Word]
	if given.At.Time != nil {
		at = *given.At.Time
	}
	return must(client.GetOffset(given.Topic, given.Partition, at))
}

// handler has the callbacks of a member's group.
type handler struct {
	member  *Member
	session sarama.ConsumerGroupSession
}

func (h *handler) Setup(session sarama.ConsumerGroupSession) error {
	h.session = session
	return nil
}

func (h *handler) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (h *handler) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	part := map[string][]int32{claim.Topic(): {claim.Partition()}}
	h.member.Hold(part, nil)
	defer h.member.Hold(nil, part)
	for each := range claim.Messages() {
		session.MarkMessage(each, "")
		h.member.Read(each.Topic, each.Partition, each.Offset)
	}
	return nil
}

func join(given Given) *Member {
	if given.Protocol == "consumer" {
		panic(Lacks("it has only the classic group protocol"))
	}
	made := config(given.Connection)
	made.Consumer.Offsets.Initial = sarama.OffsetOldest
	made.Consumer.Offsets.AutoCommit.Enable = given.AutoCommit
	made.Consumer.Offsets.AutoCommit.Interval = 200 * time.Millisecond
	made.Consumer.Group.Session.Timeout = 6 * time.Second
	made.Consumer.Group.Heartbeat.Interval = 300 * time.Millisecond
	made.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{strategies[given.Strategy]()}
	made.Consumer.Group.InstanceId = given.Instance
	group := must(sarama.NewConsumerGroup(where(given), given.Group, made))
	member := NewMember()
	handler := &handler{member: member}
	ctx, leave := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		for range group.Errors() {
		}
	}()
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if err := group.Consume(ctx, []string{given.Topic}, handler); err != nil {
				member.Fail(err)
				return
			}
		}
	}()
	member.Tell = func(told Given) {
		part := map[string][]int32{told.Topic: {told.Partition}}
		switch told.What {
		case "commit":
			handler.session.Commit()
		case "pause":
			group.Pause(part)
		case "resume":
			group.Resume(part)
		default:
			panic(Lacks("a member of a group cannot seek while it reads"))
		}
	}
	member.Leave = func() {
		leave()
		<-done
		Check(group.Close())
	}
	return member
}

func main() {
	calls := map[string]Call{"produce": produce, "fetch": fetch, "offsets": offsets}
	AddMembers(calls, join)
	for name, call := range adminCalls {
		calls[name] = func(given Given) any {
			admin := must(sarama.NewClusterAdmin(where(given), config(given.Connection)))
			defer admin.Close()
			return call(admin, given)
		}
	}
	Serve(calls, codeOf)
}
