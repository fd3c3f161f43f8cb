package dynamicplugins_test

import (
	"bytes"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"berth/internal/client/dynamicplugins"
	"berth/internal/model/plugin"
	"berth/internal/port/kv"
	"berth/internal/wire"
)

func open(t *testing.T, path string) (*kv.Store, *dynamicplugins.Registry, string) {
	t.Helper()
	store, err := kv.Open(path, kv.Codec{Encode: wire.Encode, Decode: wire.DecodeStrict})
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	r, err := dynamicplugins.Open(store, slog.New(slog.NewTextHandler(&said, nil)))
	if err != nil {
		t.Fatal(err)
	}
	return store, r, said.String()
}

func TestTheRegistryOutlivesTheAgent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kv")
	store, r, _ := open(t, path)
	at := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	one := dynamicplugins.Info{
		Plugin:        "p",
		Role:          plugin.RoleNode,
		Alloc:         "a",
		Task:          "t",
		Scope:         plugin.ScopeNode,
		Socket:        "/s",
		HostBase:      "/h",
		TaskBase:      "/t",
		HealthTimeout: time.Second,
		Declared:      at,
	}
	two := one
	two.Alloc, two.Declared = "b", at.Add(time.Second)
	for _, i := range []dynamicplugins.Info{one, two} {
		changed := r.Changed()
		if err := r.Register(i); err != nil {
			t.Fatal(err)
		}
		select {
		case <-changed:
		default:
			t.Error("nobody hears of a declaration")
		}
	}
	again := one
	again.Socket, again.Declared = "/s2", at.Add(time.Hour)
	if err := r.Register(again); err != nil {
		t.Fatal(err)
	}
	again.Declared = at // the same alloc again is an update, not a newer instance
	again.Ended = "Error: mount it on /v"
	if err := r.Ended("a", "t", again.Ended); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	store, r, _ = open(t, path)
	if diff := cmp.Diff([]dynamicplugins.Info{again, two}, r.List()); diff != "" {
		t.Errorf("another agent run finds (-want +got)\n%s", diff)
	}
	for range 2 { // withdrawing what is not there is no error
		if err := r.Deregister(plugin.RoleNode, "p", "b"); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.Update(func(tx *kv.Tx) error {
		return tx.Put("dynamic-plugins", "damaged", "nonsense")
	}); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	store, r, said := open(t, path)
	defer store.Close()
	if len(r.List()) != 1 || !strings.Contains(said, "damaged") {
		t.Errorf("%+v, said %q", r.List(), said)
	}
}

// An agent of the version before refuses a record with a field that it does not know, and would not find the plugin:
// how a process ended is none of what is declared.
func TestAnAgentOfBeforeReadsWhatIsDeclared(t *testing.T) {
	store, r, _ := open(t, filepath.Join(t.TempDir(), "kv"))
	defer store.Close()
	if err := r.Register(dynamicplugins.Info{Plugin: "p", Role: plugin.RoleNode, Alloc: "a", Task: "t"}); err != nil {
		t.Fatal(err)
	}
	if err := r.Ended("a", "t", "Exit Code: 1"); err != nil {
		t.Fatal(err)
	}
	if err := store.View(func(tx *kv.Tx) error {
		for _, key := range tx.Keys("dynamic-plugins") {
			fields := map[string]any{}
			if _, err := tx.Get("dynamic-plugins", key, &fields); err != nil {
				return err
			}
			if _, there := fields["Ended"]; there || fields["Plugin"] != "p" {
				t.Errorf("the record says %v", fields)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
