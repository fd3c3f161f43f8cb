package node

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/client/csimanager/entry"
	"berth/internal/client/csimanager/instance"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/port/kv"
	"berth/internal/wire"
)

// freezing are two plugins, of which one answers nobody before it is released.
type freezing struct {
	released chan struct{}
	asked    chan ids.Plugin
}

func (f *freezing) Use(id ids.Plugin, _ plugin.Role) (*instance.Connection, error) {
	if f.asked <- id; id == "frozen" {
		<-f.released
	}
	return nil, fault.New(fault.NotReady, "use", string(id), "it is not there")
}

func (*freezing) Changed() <-chan struct{} { return nil }

func (*freezing) AtOnce(ids.Plugin, plugin.Role) int { return 0 }

// TestAFrozenPluginHoldsUpNoOther: given more volumes of a plugin that answers nobody than the node works on at once,
// when another plugin's volume is wanted, then that plugin is asked.
func TestAFrozenPluginHoldsUpNoOther(t *testing.T) {
	store, err := kv.Open(filepath.Join(t.TempDir(), "kv"), kv.Codec{Encode: wire.Encode, Decode: wire.DecodeStrict})
	if err != nil {
		t.Fatal(err)
	}
	plugins := &freezing{released: make(chan struct{}), asked: make(chan ids.Plugin, 100)}
	s := &scripted{armed: true}
	k, err := New(Config{
		Store:     store,
		Codec:     kv.Codec{Encode: wire.Encode, Decode: wire.DecodeStrict},
		Boot:      "boot",
		Plugins:   plugins,
		Processes: &beginning{},
		Armed:     s,
		Allocs:    s,
		Parallel:  4,
		Log:       slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	g, ctx := lifecycle.NewGroup(t.Context())
	g.Go("volumes", func() error { return k.loop.Run(ctx) })
	want := func(p ids.Plugin, volumes int) {
		for i := range volumes {
			m := grantOf("a")
			m.Key = volume.PublicationKey{
				StagingKey: volume.StagingKey{Plugin: p, ExternalID: fmt.Sprint(i)},
				Alloc:      ids.Alloc(fmt.Sprint("a", i)),
			}
			vs := newVolumeState(&entry.Entry{Key: m.Key.StagingKey})
			if err := vs.want(m); err != nil {
				t.Fatal(err)
			}
			vs.acknowledged[m.Key.Alloc] = m.Epoch
			k.mu.Lock()
			k.vols[m.Key.StagingKey] = vs
			k.mu.Unlock()
			k.loop.Mark(m.Key.StagingKey)
		}
	}
	await := func(p ids.Plugin, times int) {
		t.Helper()
		deadline := time.After(time.Minute)
		for times > 0 {
			select {
			case id := <-plugins.asked:
				if id == p {
					times--
				}
			case <-deadline:
				t.Errorf("plugin %s is not asked while another one hangs", p)
				return
			}
		}
	}
	want("frozen", 8)
	await("frozen", 4)
	want("fine", 1)
	await("fine", 1)
	close(plugins.released)
	g.Stop()
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
}
