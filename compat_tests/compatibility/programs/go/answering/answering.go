// Package answering is the loop of the drivers in Go; answering.py describes calls and answers.
package answering

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"os"
)

// MostBytes is the largest size of a request or a response.
const MostBytes = 1 << 25

// Connection is the address and the security of a client.
type Connection struct {
	Bootstrap, Protocol, Mechanism, User, Password, Token, Ca string
}

// TLS returns the trusted certificates of a client, or nil if it uses no TLS.
func (c Connection) TLS() *tls.Config {
	if c.Ca == "" {
		return nil
	}
	pem, err := os.ReadFile(c.Ca)
	Check(err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	return &tls.Config{RootCAs: pool}
}

// Record is a record to write.
type Record struct {
	Key, Value *string
	Headers    [][2]*string
	Timestamp  *int64
	Partition  int32
}

// Transaction is the transaction of records, and its end.
type Transaction struct {
	ID, End string
	Offsets *struct {
		Group  string
		Offset int64
	}
}

// Place is the start of reading, or the wanted offset: a word, an offset or a time.
type Place struct {
	Word         string
	Offset, Time *int64
}

// UnmarshalJSON accepts a word, an offset or a time.
func (p *Place) UnmarshalJSON(data []byte) error {
	if json.Unmarshal(data, &p.Word) == nil || json.Unmarshal(data, &p.Time) == nil {
		return nil
	}
	var given struct{ Offset, Time *int64 }
	err := json.Unmarshal(data, &given)
	p.Offset, p.Time = given.Offset, given.Time
	return err
}

// Given has the arguments of all calls.
type Given struct {
	Call                                       string
	Connection                                 Connection
	Topic, Group, Acks, Codec, Isolation       string
	Records                                    []Record
	Idempotent                                 bool
	Transaction                                *Transaction
	Start, At                                  Place
	Count, Partitions, Partition               int32
	Member, Strategy, Instance, Protocol, What string
	AutoCommit                                 bool `json:"auto_commit"`
	Offset, Before                             int64
	Configs, Put                               map[string]string
	Keys, Delete                               []string
	Replicas                                   []int32
	User, Mechanism, Password, Key             string
	Value                                      float64
}

// Call returns the result of a call; it panics with Lacks or an error.
type Call func(Given) any

// Lacks is the reason why a client has no API for a call.
type Lacks string

// Check ends a call that failed.
func Check(err error) {
	if err != nil {
		panic(err)
	}
}

// Raw returns a key or value as bytes.
func Raw(text *string) []byte {
	if text == nil {
		return nil
	}
	return []byte(*text)
}

// Plain returns a key or value for JSON.
func Plain(data []byte) *string {
	if data == nil {
		return nil
	}
	text := string(data)
	return &text
}

// Serve answers calls until stdin ends; codeOf returns Kafka's error code, or 0.
func Serve(calls map[string]Call, codeOf func(error) int) {
	lines := bufio.NewReader(os.Stdin)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var given Given
		Check(json.Unmarshal(line, &given))
		text, err := json.Marshal(answer(calls, given, codeOf))
		Check(err)
		_, err = os.Stdout.Write(append(text, '\n'))
		Check(err)
	}
}

func answer(calls map[string]Call, given Given, codeOf func(error) int) (answer map[string]any) {
	defer func() {
		switch thrown := recover().(type) {
		case nil:
		case Lacks:
			answer = map[string]any{"lacks": string(thrown)}
		case error:
			told := map[string]any{"code": nil, "text": thrown.Error()}
			if code := codeOf(thrown); code != 0 {
				told["code"] = code
			}
			answer = map[string]any{"error": told}
		default:
			panic(thrown)
		}
	}()
	call, ok := calls[given.Call]
	if !ok {
		panic(Lacks("it has no API for it"))
	}
	return map[string]any{"result": call(given)}
}

// ErrLate is the error of a call that took too long.
var ErrLate = errors.New("it took too long")
