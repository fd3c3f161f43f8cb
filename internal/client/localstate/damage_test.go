package localstate

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/alloc"
)

// Given a node's store that is damaged, when it is opened, then it is refused with its path, what was not done and what
// to do; it neither ends the program nor passes for an empty one.
func TestADamagedNodeStoreIsRefused(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		id := ids.Alloc(fmt.Sprintf("alloc-%03d", i))
		if err := s.PutTask(id, "t", &Task{State: alloc.TaskState{}, Attempt: i}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "client.db")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, damage := range map[string]func([]byte) []byte{
		"both meta pages": func(b []byte) []byte { clear(b[:8192]); return b },
		"the middle":      func(b []byte) []byte { clear(b[8192 : len(b)-4096]); return b },
		"half":            func(b []byte) []byte { return b[:len(b)/2] },
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(path, damage(append([]byte(nil), whole...)), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := Open(dir)
			if !fault.Has(err, fault.Internal) || !strings.Contains(err.Error(), path) {
				t.Fatalf("got %v", err)
			}
			for _, said := range []string{"nothing was started or stopped", "Restore the file"} {
				if !strings.Contains(err.Error(), said) {
					t.Errorf("it does not say %q: %v", said, err)
				}
			}
		})
	}
}
