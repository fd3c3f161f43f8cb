package agent

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAServerWithoutANodeSaysSo: given an agent that is to have no node, when it is built, then it has none, and says
// nothing of one's health; and where there was one, it warns that nobody watches what runs on there.
func TestAServerWithoutANodeSaysSo(t *testing.T) {
	var said bytes.Buffer
	dir := t.TempDir()
	file := write(t, dir, "a.hcl",
		fmt.Sprintf("data_dir = %q\nserver { enabled = true }\n", filepath.Join(dir, "data")))
	cfg := parse(t, "-config", file)
	a := &Agent{cfg: cfg, log: slog.New(slog.NewTextHandler(&said, nil)), level: &slog.LevelVar{}}
	begin := func() string {
		t.Helper()
		said.Reset()
		if err := a.buildOwnNode(t.Context()); err != nil || a.client != nil || a.refused != nil {
			t.Errorf("%v; a node: %v, refused: %v", err, a.client != nil, a.refused)
		}
		return said.String()
	}
	if got := begin(); !strings.Contains(got, "no node") || strings.Contains(got, "WARN") {
		t.Errorf("it says %q", got)
	}
	if got := a.Health(t.Context()); len(got) != 0 {
		t.Errorf("health of what it does not have: %v", got)
	}
	if _, stats := a.Describe(); stats["client"] != nil {
		t.Errorf("it describes a node: %v", stats["client"])
	}
	store := filepath.Join(a.cfg.DataDir, "client", "client.db")
	if err := os.MkdirAll(filepath.Dir(store), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(store, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := begin(); !strings.Contains(got, "WARN") || !strings.Contains(got, "client { enabled = true }") {
		t.Errorf("where there was a node it says %q", got)
	}
}
