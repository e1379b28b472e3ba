// Package answering is the loop of the drivers in Go; answering.py says what a call and an answer are.
package answering

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"os"
)

// MostBytes is what a client may send or receive at once.
const MostBytes = 1 << 25

// Connection says where a client connects, and how.
type Connection struct {
	Bootstrap, Protocol, Mechanism, User, Password, Token, Ca string
}

// TLS returns what a client trusts, or nil if it uses no TLS.
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

// Record is what is written.
type Record struct {
	Key, Value *string
	Headers    [][2]*string
	Timestamp  *int64
	Partition  int32
}

// Transaction says in which transaction records are written, and how it ends.
type Transaction struct {
	ID, End string
	Offsets *struct {
		Group  string
		Offset int64
	}
}

// Place is a word, an offset or a time: where reading starts, or which offset is asked for.
type Place struct {
	Word         string
	Offset, Time *int64
}

// UnmarshalJSON takes any of the three.
func (p *Place) UnmarshalJSON(data []byte) error {
	if json.Unmarshal(data, &p.Word) == nil || json.Unmarshal(data, &p.Time) == nil {
		return nil
	}
	var given struct{ Offset, Time *int64 }
	err := json.Unmarshal(data, &given)
	p.Offset, p.Time = given.Offset, given.Time
	return err
}

// Given is what any call is given.
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

// Lacks is why a client cannot do what it is asked for.
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

// Plain returns a key or value as JSON has it.
func Plain(data []byte) *string {
	if data == nil {
		return nil
	}
	text := string(data)
	return &text
}

// Serve answers calls until stdin ends; codeOf returns Kafka's number of an error, or 0.
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

// ErrLate is what a call ends with that took too long.
var ErrLate = errors.New("it took too long")
