package answering

import "sync"

// Member has the events of a consumer in a group.
type Member struct {
	lock     sync.Mutex
	assigned map[[2]any]bool
	read     []any
	changes  int
	failure  *string
	// Tell runs a command, and Leave closes the consumer.
	Tell  func(Given)
	Leave func()
}

// NewMember returns a member without partitions.
func NewMember() *Member {
	return &Member{assigned: map[[2]any]bool{}, read: []any{}}
}

// Read notes a record.
func (m *Member) Read(topic string, partition int32, offset int64) {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.read = append(m.read, []any{topic, partition, offset})
}

// Hold notes assigned and revoked partitions.
func (m *Member) Hold(came, went map[string][]int32) {
	m.lock.Lock()
	defer m.lock.Unlock()
	for topic, partitions := range came {
		for _, each := range partitions {
			m.assigned[[2]any{topic, each}] = true
		}
	}
	for topic, partitions := range went {
		for _, each := range partitions {
			delete(m.assigned, [2]any{topic, each})
		}
	}
	if len(came)+len(went) > 0 {
		m.changes++
	}
}

// HoldOnly notes all assigned partitions.
func (m *Member) HoldOnly(now map[string][]int32) {
	m.lock.Lock()
	m.assigned = map[[2]any]bool{}
	m.lock.Unlock()
	m.Hold(now, nil)
}

// Fail notes the error that ended the consumer.
func (m *Member) Fail(err error) {
	m.lock.Lock()
	defer m.lock.Unlock()
	text := err.Error()
	m.failure = &text
}

func (m *Member) state() any {
	m.lock.Lock()
	defer m.lock.Unlock()
	held := []any{}
	for each := range m.assigned {
		held = append(held, each)
	}
	return map[string]any{"assigned": held, "read": m.read, "changes": m.changes, "failure": m.failure}
}

// AddMembers adds the calls about members; joining is the client's own part.
func AddMembers(calls map[string]Call, join func(Given) *Member) {
	members := map[string]*Member{}
	calls["join"] = func(given Given) any {
		members[given.Member] = join(given)
		return nil
	}
	calls["state"] = func(given Given) any { return members[given.Member].state() }
	calls["tell"] = func(given Given) any {
		members[given.Member].Tell(given)
		return nil
	}
	calls["leave"] = func(given Given) any {
		members[given.Member].Leave()
		delete(members, given.Member)
		return nil
	}
}
