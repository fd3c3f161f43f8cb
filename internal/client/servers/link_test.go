package servers

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"berth/internal/client/localstate"
	"berth/internal/wire"
)

// TestARefusalIsSaidOnce: an agent that asks for days says it in one line, and one more when it is over.
func TestARefusalIsSaidOnce(t *testing.T) {
	var out bytes.Buffer
	l, err := Connect(wire.NewPipe(), localstate.Identity{Node: "n"}, nil, slog.New(slog.NewTextHandler(&out, nil)))
	if err != nil {
		t.Fatal(err)
	}
	l.Accepted("one", 0)
	for range 3 {
		l.Refused(errors.New("another is obeyed"))
	}
	if n := strings.Count(out.String(), "another is obeyed"); n != 1 || l.Refusal() == nil {
		t.Errorf("said %d times; refused: %v", n, l.Refusal())
	}
	l.Accepted("one", 0)
	if l.Refusal() != nil || l.Identity().Session != "one" {
		t.Errorf("accepted: %v, %q", l.Refusal(), l.Identity().Session)
	}
}

// TestAPermissionIsForOneSessionAndComesInTime.
func TestAPermissionIsForOneSessionAndComesInTime(t *testing.T) {
	l := &Link{epoch: "one", patience: 20 * time.Second}
	for name, c := range map[string]struct {
		epoch string
		took  time.Duration
		want  bool
	}{
		"at once":         {"one", time.Second, true},
		"in time":         {"one", 10 * time.Second, true},
		"late":            {"one", 10*time.Second + 1, false},
		"another session": {"two", time.Second, false},
	} {
		if got := l.Fresh(c.epoch, c.took); got != c.want {
			t.Errorf("%s: fresh %t", name, got)
		}
	}
	l.patience = 0
	if !l.Fresh("one", time.Hour) {
		t.Error("servers that do not say how long they wait are waited for")
	}
}
