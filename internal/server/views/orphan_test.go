package views

import (
	"slices"
	"strings"
	"testing"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/server/state"
)

// Given an alloc that the servers know and whose record its node has lost, then its volume and the alloc name what a
// person can do, and so does an alloc of another job that waits for the volume; so does the plugin of which an instance
// is an orphan. Of what is no orphan nothing is said.
func TestWhatAnOrphanHoldsUpNamesTheWayOut(t *testing.T) {
	const known, runs = "4f02aa10-0000-4000-8000-000000000002", "77c0ffee-0000-4000-8000-000000000003"
	const waits = "99c0ffee-0000-4000-8000-000000000004"
	h := newHouse(t)
	group := &job.TaskGroup{Name: "g", Volumes: map[string]*job.VolumeRequest{"data": {
		Name:   "data",
		Type:   job.VolumeTypeCSI,
		Source: string(data.ID),
	}}}
	h.write(func(tx *state.Tx) {
		tx.PutJob(&job.Job{Namespace: data.Namespace, ID: "db", TaskGroups: []*job.TaskGroup{group}})
		v := tx.Volume(nil, data)
		for id, is := range map[ids.Alloc]volume.ClaimState{known: volume.Held, waits: volume.Queued} {
			cl := &volume.Claim{Volume: data, Alloc: id, Node: "a", State: is}
			cl.AccessMode = volume.SingleNodeWriter
			cl.Identify(v)
			tx.PutClaim(cl)
		}
		j := tx.Job(nil, data.Namespace, "db")
		tx.PutAlloc(&alloc.Alloc{
			ID:             known,
			Namespace:      data.Namespace,
			Job:            j.ID,
			JobVersion:     j.Version,
			JobCreateIndex: j.CreateIndex,
			TaskGroup:      "g",
			Node:           "a",
		})
	})
	says := func(want bool) {
		t.Helper()
		s := h.Store.Snapshot()
		found := func(what string, texts []string, id string) {
			t.Helper()
			got := slices.ContainsFunc(texts, func(text string) bool {
				return strings.Contains(text, "berth node orphans adopt "+ids.Short(ids.Alloc(id))) &&
					strings.Contains(text, "berth node orphans end "+ids.Short(ids.Alloc(id)))
			})
			if got != want {
				t.Errorf("%s names the way out: %v, want %v: %q", what, got, want, texts)
			}
		}
		found("the volume", Of(s, nil).Volume(s.Volume(nil, data)).State, known)
		var of []string
		for _, v := range AllocVolumes(s, nil, s.Alloc(nil, known)) {
			of = append(of, v.State)
		}
		found("the alloc", of, known)
		queued := s.Claim(nil, volume.ClaimKey{Volume: data, Alloc: waits})
		found("who waits", []string{Holders(s, nil, queued)}, known)
		found("the plugin", []string{Of(s, nil).Plugin("p").Orphans[runs]}, runs)
	}
	says(false)
	h.write(func(tx *state.Tx) {
		n := *tx.Node(nil, "a")
		n.CSI = []*plugin.Instance{{Plugin: "p", Role: plugin.RoleNode, State: plugin.Ready, Alloc: runs, Node: "a"}}
		n.Orphans = []node.Orphan{
			{Alloc: known, Reason: "its record is lost"},
			{Alloc: runs, Reason: "it is unknown", Plugins: []ids.Plugin{"p"}},
		}
		tx.PutNode(&n)
	})
	says(true)
}

// Given a node that lost its record of an alloc that runs a plugin, so that the plugin is no instance there any more,
// then the plugin is known, and names the orphan and what a person can do; another plugin does not.
func TestAPluginWhoseRecordIsLostNamesItsOrphan(t *testing.T) {
	const runs = "77c0ffee-0000-4000-8000-000000000003"
	h := newHouse(t)
	h.write(func(tx *state.Tx) {
		n := *tx.Node(nil, "a")
		n.CSI = nil
		n.Orphans = []node.Orphan{{Alloc: runs, Reason: "its record is lost", Plugins: []ids.Plugin{"lost"}}}
		tx.PutNode(&n)
	})
	r := Of(h.Store.Snapshot(), nil)
	if !slices.Contains(r.PluginIDs(), "lost") {
		t.Errorf("the plugins: %v", r.PluginIDs())
	}
	p := r.Plugin("lost")
	if p == nil || !strings.Contains(p.Orphans[runs], "berth node orphans end "+ids.Short(runs)) || p.NodesHealthy > 0 {
		t.Errorf("the plugin: %+v", p)
	}
	if other := r.Plugin("p"); other == nil || len(other.Orphans) > 0 {
		t.Errorf("another plugin: %+v", other)
	}
}

// Given an orphan of which the servers know nothing, so that it has no claim, then who waits for its volume is given
// the commands that end that; where its job is stopped, the one that adopts it under another id.
func TestWhoWaitsForAnOrphanWithoutAClaimGetsTheWayOut(t *testing.T) {
	const orphan, waits = "77c0ffee-0000-4000-8000-000000000003", "99c0ffee-0000-4000-8000-000000000004"
	h := newHouse(t)
	h.write(func(tx *state.Tx) {
		cl := &volume.Claim{Volume: data, Alloc: waits, Node: "a", State: volume.Queued}
		cl.Identify(tx.Volume(nil, data))
		tx.PutClaim(cl)
		tx.PutInventoryEntry("a", volume.InventoryEntry{
			StagingKey:   cl.Staging(),
			Staging:      volume.Present,
			Publications: []volume.InventoryPublication{{Alloc: orphan, Presence: volume.Present}},
		})
	})
	s := h.Store.Snapshot()
	got := Holders(s, nil, s.Claim(nil, volume.ClaimKey{Volume: data, Alloc: waits}))
	short := ids.Short(ids.Alloc(orphan))
	if !strings.Contains(got, "orphans adopt "+short) || !strings.Contains(got, "orphans end "+short) {
		t.Errorf("it is shown: %s", got)
	}
	h.write(func(tx *state.Tx) {
		tx.PutJob(&job.Job{Namespace: data.Namespace, ID: "left", Stop: true})
		n := *tx.Node(nil, "a")
		n.Orphans = []node.Orphan{{Alloc: orphan, Namespace: data.Namespace, Job: "left", Reason: "no record"}}
		tx.PutNode(&n)
	})
	s = h.Store.Snapshot()
	got = Holders(s, nil, s.Claim(nil, volume.ClaimKey{Volume: data, Alloc: waits}))
	if !strings.Contains(got, "orphans adopt -as NEWID "+short) || !strings.Contains(got, "orphans end "+short) {
		t.Errorf("of a stopped job it is shown: %s", got)
	}
}

// Given the orphan of a job, then it is offered for adoption under its own id; but not while its job is stopped, since
// that is refused: then another id is asked for.
func TestAnOrphanOfAStoppedJobIsOfferedUnderAnotherId(t *testing.T) {
	const id = "4f02aa10-0000-4000-8000-000000000009"
	h := newHouse(t)
	for stopped, want := range map[bool]string{
		false: "berth node orphans adopt " + ids.Short(ids.Alloc(id)),
		true:  "berth node orphans adopt -as NEWID " + ids.Short(ids.Alloc(id)),
	} {
		h.write(func(tx *state.Tx) {
			tx.PutJob(&job.Job{Namespace: data.Namespace, ID: "left", Stop: stopped})
			tx.PutNode(&node.Node{
				ID:      "left",
				Orphans: []node.Orphan{{Alloc: id, Namespace: data.Namespace, Job: "left", Reason: "no record"}},
			})
		})
		if got := Orphaned(h.Store.Snapshot(), nil, "left", id); !strings.Contains(got, want) {
			t.Errorf("stopped %v: %q lacks %q", stopped, got, want)
		}
	}
}
