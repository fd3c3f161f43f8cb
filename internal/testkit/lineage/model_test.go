package lineage

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/base/ids"
	"berth/internal/client/csimanager/evidence"
	"berth/internal/model/volume"
	"berth/internal/wire"
)

// deed is something that befalls the world.
type deed struct {
	name string
	do   func(*scene)
}

// scene is a world with a node that has the volume, and what can be returned to.
type scene struct {
	*world
	person
	ash, oak       *machine
	early, late    moment // of the servers: before the volume was claimed, and after
	earlier, later *dir   // of the node: likewise
}

// volumesAre are the states in which the volume is.
var volumesAre = []deed{
	{"claimed", func(*scene) {}},
	{"releasing", func(s *scene) { s.lose() }},
	{"forced", func(s *scene) { s.lose(); s.force() }},
	{"reused", func(s *scene) { s.ash.off(); s.lose(); s.replaceVolume() }},
}

// nodesSuffer is what befalls the node that has it.
var nodesSuffer = []deed{
	{"crash and reboot", func(s *scene) { s.ash.off(); s.ash.on() }},
	{"crash and reboot of a nameless machine", func(s *scene) { s.ash.nameless = true; s.ash.off(); s.ash.on() }},
	{"clone", func(s *scene) { s.clone() }},
	{"clone, then the original", func(s *scene) { s.ash.kill(); s.clone(); s.silence(); s.ash.on() }},
	{"data_dir of before the claim", func(s *scene) { s.ash.kill(); s.ash.forget(s.earlier.copy()); s.ash.on() }},
	{"data_dir of before its restart", func(s *scene) {
		s.ash.kill()
		s.ash.putStore(s.later.copy().store)
		s.ash.on()
	}},
	{"store lost", func(s *scene) { s.ash.kill(); s.ash.putStore(newStore()); s.ash.on() }},
	{"store and id files lost", func(s *scene) {
		s.ash.kill()
		s.ash.putStore(newStore())
		s.ash.dir.names = map[string]evidence.IDFile{}
		s.ash.on()
	}},
}

// serversSuffer is what befalls the servers.
var serversSuffer = []deed{
	{"leader change", func(s *scene) { s.servers.changeLeader() }},
	{"cold backup of before the claim", func(s *scene) { s.older = true; s.servers.putBack(s.early) }},
	{"cold backup of after the claim", func(s *scene) { s.older = true; s.servers.putBack(s.late) }},
	{"log cut", func(s *scene) { s.older = true; s.servers.cutTo(s.early) }},
	{"compaction", func(s *scene) { s.servers.compact() }},
	{"cold backup of before the claim over a state that a recovery began", func(s *scene) {
		if _, err := wire.RecoveryBegin.Call(s.ctx(), s.servers.conn,
			&wire.RecoveryWord{Reason: "it was restored"}); err != nil {
			s.fails("a recovery can't begin: %v", err)
		}
		s.settle()
		s.older = true
		s.servers.putBack(s.early)
	}},
}

// putStore gives a data directory another store; what lies beside it stays.
func (m *machine) putStore(s *store) {
	d := *m.dir
	d.store = s
	m.forget(&d)
}

// newScene has a node write to a volume, with another node beside it.
func newScene(t *testing.T) *scene {
	w := newWorld(t)
	s := &scene{world: w, person: person{w: w, kept: true}}
	s.ash = w.newMachine("ash", ashID)
	s.oak = w.newMachine("oak", oakID)
	s.ash.on()
	w.settle()
	if err := w.create("db"); err != nil {
		w.fails("the volume can't be made: %v", err)
	}
	s.early, s.earlier = w.servers.now(), s.ash.dir.copy()
	if err := w.submit("a", "db"); err != nil {
		w.fails("the job can't be submitted: %v", err)
	}
	w.settle()
	s.oak.on()
	w.settle()
	if len(s.ash.procs) != 1 {
		w.fails("the job does not run on ash")
	}
	s.late, s.later = w.servers.now(), s.ash.dir.copy()
	s.ash.kill()
	s.ash.on()
	w.settle()
	return s
}

// silence lets time go by until a node without an agent counts as down.
func (s *scene) silence() { s.settle() }

// lose ends the agent of ash: its claim is being released, while its processes may live.
func (s *scene) lose() {
	s.ash.kill()
	s.silence()
	if !s.isDown(ashID) {
		s.fails("ash is not down")
	}
}

// force has the servers forget the volume while ash may have it.
func (s *scene) force() {
	s.given = append(s.given, recordOf("x-1"))
	s.stopAll()
	s.settle()
	if _, err := wire.VolumeDeregister.Call(s.ctx(), s.servers.conn, &wire.VolumeDeleteRequest{
		Volume: volID("db"),
		Force:  true,
		Reason: "it must go",
	}); err != nil {
		s.fails("the volume can't be forgotten by force: %v", err)
	}
	s.settle()
}

// stopAll stops the jobs as they are now.
func (s *scene) stopAll() {
	s.kept = false
	s.stopJobs(wait{})
	s.kept = true
}

// replaceVolume deletes the volume that the dead ash had, and the provider gives its id to the next.
func (s *scene) replaceVolume() {
	s.stopAll()
	s.settle()
	s.fence(s.ash)
	if _, err := wire.VolumeDetach.Call(s.ctx(), s.servers.conn,
		&wire.VolumeDetachRequest{Volume: volID("db"), Node: ashID, Attest: "it has no power"}); err != nil {
		s.fails("the claim does not end by a word: %v", err)
	}
	s.settle()
	if _, err := wire.VolumeDelete.Call(s.ctx(), s.servers.conn,
		&wire.VolumeDeleteRequest{Volume: volID("db"), Wait: 30 * time.Second}); err != nil {
		s.fails("the volume can't be deleted: %v", err)
	}
	s.provider.again = append(s.provider.again, "x-1")
	if err := s.create("next"); err == nil || !strings.Contains(err.Error(), "x-1") {
		s.fails("of x-1 something is left on ash, and the provider gives that id to another volume: %v", err)
	}
	if _, err := wire.VolumeDelete.Call(s.ctx(), s.servers.conn,
		&wire.VolumeDeleteRequest{Volume: volID("next")}); err != nil {
		s.fails("a record that owns nothing can't be deleted: %v", err)
	}
	if err := s.register("next", "x-1"); err != nil {
		s.fails("the next volume can't be registered: %v", err)
	}
	if err := s.submit("c", "next"); err != nil {
		s.fails("the next job can't be submitted: %v", err)
	}
	s.settle()
	if len(s.oak.procs) != 1 {
		s.fails("the next job does not run on oak")
	}
}

// clone copies the disk of ash to another machine, which is switched on.
func (s *scene) clone() {
	name := "clone"
	for range s.machines[2:] {
		name += " again"
	}
	c := s.newMachine(name, ashID)
	c.copied = true
	c.dir = s.ash.dir.copy()
	c.dir.tasks = map[ids.Alloc]bool{} // their directories are on it, too; nothing of them runs
	for id := range s.ash.dir.tasks {
		c.dir.tasks[id] = true
	}
	c.on()
}

// Given a volume in each state, when each that befalls a node meets each that befalls the servers, in either order,
// then what runs runs on, nothing that is in use is deleted or given away, whatever waits names a way out, and by these
// ways everything comes to rest.
func TestARestoredClonedOrLostMachineIsNotBelievedTooMuch(t *testing.T) {
	for _, v := range volumesAre {
		for _, n := range nodesSuffer {
			for _, srv := range serversSuffer {
				for _, nodeFirst := range []bool{true, false} {
					order := []deed{srv, n}
					if nodeFirst {
						order = []deed{n, srv}
					}
					t.Run(v.name+"/"+order[0].name+", "+order[1].name, func(t *testing.T) {
						t.Parallel()
						play(t, v, order[0], order[1])
					})
				}
			}
		}
	}
}

// play lets one thing after another befall a new scene, and has a person end it. Where there were orphans, it is played
// once more by a person who adopts them.
func play(t *testing.T, deeds ...deed) {
	orphans := false
	synctest.Test(t, func(t *testing.T) { orphans = tellStory(t, false, deeds) })
	if orphans {
		synctest.Test(t, func(t *testing.T) { tellStory(t, true, deeds) })
	}
}

// tellStory reports whether a person decided about orphans.
func tellStory(t *testing.T, adopts bool, deeds []deed) bool {
	s := newScene(t)
	defer s.close()
	s.adopts = adopts
	s.befall(deeds)
	return s.decided
}

// befall lets one thing after another befall a scene, and has a person end it. After each, the oracle judges.
func (s *scene) befall(deeds []deed) {
	for _, d := range deeds {
		s.tell("%s", d.name)
		d.do(s)
		s.follow()
		s.settle()
		s.judge(false)
	}
	if s.forgotten() { // else nobody can know of the use before a person has looked at the node that is refused
		s.finish()
	}
	s.submitSecond()
	s.settle()
	s.judge(false)
	s.finish() // of what stands in the way, while jobs go on
	s.writes()
	s.kept = false
	s.finish()
	s.judge(true)
}

// forgotten reports whether a task writes of which neither the servers know nor any node that they obey, and nothing is
// shown against their state under its node's name.
func (s *scene) forgotten() bool {
	snap := s.servers.snap()
	for _, m := range s.machines {
		if e := snap.Evidence(nil, m.dir.node); e != nil && e.Counts(snap.Meta(nil).Incarnation) {
			continue
		}
		for id := range m.procs {
			if snap.Alloc(nil, id) == nil && (m.agent == nil || m.agent.refusal != nil) {
				return true
			}
		}
	}
	return false
}

// writes holds that whoever waits for a volume gets it: some task writes to it.
func (s *scene) writes() {
	for v := range s.servers.snap().Volumes(nil, wire.AllNamespaces, "") {
		written := false
		for _, m := range s.machines {
			for _, p := range m.procs {
				written = written || p.volume == v.Status.ExternalID
			}
		}
		if !written && v.Status.Phase == volume.PhaseReady {
			s.fails("nothing stands in the way any more, and nobody writes to %s", v.ID)
		}
	}
}

// submitSecond asks for another use of whichever volume has the provider's id now.
func (s *scene) submitSecond() {
	for v := range s.servers.snap().Volumes(nil, wire.AllNamespaces, "") {
		if v.Status.Phase == volume.PhaseReady {
			if err := s.submit("b", string(v.ID.ID)); err != nil {
				s.tell("the second job: %v", err)
			}
			return
		}
	}
}
