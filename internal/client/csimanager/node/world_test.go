package node_test

import (
	"path/filepath"
	"sync"
	"testing"

	"berth/internal/conformance/csi/csitest"
	"berth/internal/conformance/csi/oracle"
	"berth/internal/conformance/csi/proxy"
	"berth/internal/port/csi"
)

// world feeds the oracle in tests of a node without servers; the rig that is built before the plugin belongs to it.
type world struct {
	t testing.TB

	mu      sync.Mutex
	rig     *rig
	targets map[string]csitest.Use // what was mounted where, as the keeper said
	volumes []csi.Volume
}

// Witness implements csitest.World: the processes are those of the gate, as the client would know them.
func (w *world) Witness(begin proxy.Entry) *proxy.Observation {
	w.mu.Lock()
	r, use := w.rig, w.targets[begin.Target]
	w.mu.Unlock()
	seen := &proxy.Observation{Living: []string{}}
	if r == nil || use.Alloc == "" {
		return seen
	}
	r.gate.mu.Lock()
	defer r.gate.mu.Unlock()
	if r.gate.live[use.Alloc] {
		seen.Living = append(seen.Living, "alloc "+string(use.Alloc))
	}
	return seen
}

// uses notes where an alloc's volume is.
func (w *world) uses(path string, u csitest.Use) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.targets[path] = u
}

// Facts implements csitest.World.
func (w *world) Facts(p *csitest.Plugin) oracle.Facts {
	const servers = "the test plays the servers: they hold neither claims nor attachments"
	f := oracle.Facts{
		Processes: oracle.Witnessed(),
		Holders:   oracle.Nobody(servers + ", and a node deletes no volume"),
		Writers:   oracle.Nobody("there is one node"),
		Tasks:     oracle.Feed[oracle.TaskStart](),
		Shown:     oracle.None[oracle.Shown](servers),
		Works:     oracle.None[oracle.Work]("what the keeper is asked for, the test itself waits for"),
		Secrets:   oracle.None[string]("no volume of these tests has secrets"),
		Texts:     oracle.None[oracle.Text]("without secrets none can show"),
		Strays:    oracle.Feed[oracle.Stray](),
		Ends:      oracle.None[oracle.End]("the keeper of volumes ends no alloc"),
		Obeyed:    oracle.None[oracle.Obeyed]("the agent runs of a rig follow one another"),
		Quiet:     oracle.Feed[oracle.Quiet](),
		Provider:  oracle.Feed(p.Provider()...),
		Records:   oracle.Feed[oracle.Record](),
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, v := range w.volumes {
		f.Records.Add(oracle.Record{ID: v.ID})
	}
	if w.rig == nil {
		f.Rest = oracle.None[oracle.Rest]("no node has used the plugin")
		return f
	}
	strays, err := csitest.Beneath(w.rig.base(), func(name string) bool { return filepath.Ext(name) != ".id" })
	if err != nil {
		w.t.Error(err)
	}
	f.Strays.Add(strays...)
	return f
}
