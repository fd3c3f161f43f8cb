package lineage

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/volume"
	"berth/internal/server/state"
	kit "berth/internal/testkit/servers"
	"berth/internal/wire"
)

// sim is a world with several servers, where schedules are played.
type sim struct {
	*world
	site   *several
	asleep map[*machine]int // passes for which the agent stands still
	jobs   map[int]*promise
	vols   map[int]*promise
	cuts   map[int]*snapshot
}

// promise is what people have heard of one thing that they asked for, under a name that is used once.
type promise struct {
	made  bool // it was acknowledged
	ended bool // its end was asked for; whether that was heard may not be known
	gone  bool // its end was acknowledged
	larger
}

func newSim(t *testing.T, servers, nodes int) *sim {
	w := emptyWorld(t)
	s := &sim{
		world:  w,
		asleep: map[*machine]int{},
		jobs:   map[int]*promise{},
		vols:   map[int]*promise{},
		cuts:   map[int]*snapshot{},
	}
	s.site = newSeveral(t, w, servers)
	w.site = s.site
	for i := range nodes {
		m := w.newMachine(fmt.Sprintf("n%d", i+1), ids.Node(fmt.Sprintf("a0000000-0000-4000-8000-00000000000%d", i+1)))
		m.on()
	}
	if s.site.Leader() == nil {
		w.fails("no server leads")
	}
	s.list()
	s.passes(2)
	return s
}

// passes lets so many go by. After each everything is judged that holds at all times.
func (s *sim) passes(n int) {
	for range n {
		for _, a := range s.agents() {
			if s.asleep[a.m] > 0 {
				s.asleep[a.m]--
				continue
			}
			a.tick()
			synctest.Wait()
			s.lookForTwoWriters()
		}
		s.look()
		time.Sleep(pause)
		synctest.Wait()
		s.list()
		s.leave()
		s.site.compare()
		s.kept()
		if len(s.wrong) > 0 {
			s.judge(false)
		}
	}
}

// kept holds that what was acknowledged is there.
func (s *sim) kept() {
	snap := s.snap()
	for i, p := range s.jobs {
		j := snap.Job(nil, ids.DefaultNamespace, jobID(i))
		if p.made && !p.ended && (j == nil || j.Stop) {
			s.fails("job %s was acknowledged, and is not there", jobID(i))
		}
		if p.gone && j != nil && !j.Stop {
			s.fails("the end of job %s was acknowledged, and it goes on", jobID(i))
		}
	}
	for i, p := range s.vols {
		v := snap.Volume(nil, volID(volName(i)))
		if p.made && !p.ended && v == nil {
			s.fails("volume %s was acknowledged, and is not there", volName(i))
		}
		if p.gone && v != nil && v.Status.Phase != volume.PhaseDeleting {
			s.fails("the end of volume %s was acknowledged, and it is %s", volName(i), v.Status.Phase)
		}
	}
	s.keptStorage()
	s.keptMembers()
}

func (s *sim) snap() *state.Snap { return s.site.snap() }

func jobID(i int) ids.Job  { return ids.Job(fmt.Sprintf("j%d", i)) }
func volName(i int) string { return fmt.Sprintf("v%d", i) }

// note tells of what was refused, once.
func (s *sim) note(what string, err error) {
	if text := fmt.Sprintf("%s: %v", what, err); err != nil && !slices.Contains(s.story, text) {
		s.tell("%s", text)
	}
}

// create asks for a volume.
func (s *sim) create(i int) {
	p := &promise{}
	s.vols[i] = p
	_, err := wire.VolumeCreate.Call(s.ctx(), s.world.site.reach(nil),
		&wire.VolumeWriteRequest{Volume: volID(volName(i)), Spec: spec(), Wait: time.Second})
	p.made = err == nil
	s.note("volume "+volName(i), err)
}

// submitJob asks for a job that writes to a volume.
func (s *sim) submitJob(i, vol int) {
	p := &promise{}
	s.jobs[i] = p
	err := s.submit(string(jobID(i)), volName(vol))
	p.made = err == nil
	s.note("job "+string(jobID(i)), err)
}

// stopJob asks for the end of a job.
func (s *sim) stopJob(i int) error {
	p := s.jobs[i]
	if p == nil || p.gone {
		return nil
	}
	p.ended = true
	_, err := wire.JobDeregister.Call(s.ctx(), s.world.site.reach(nil),
		&wire.JobDeregisterRequest{Namespace: ids.DefaultNamespace, Job: jobID(i)})
	if fault.Has(err, fault.NotFound) && !p.made {
		err = nil // it may come late, if ever
	} else {
		p.gone = err == nil && p.made
	}
	s.note("the end of job "+string(jobID(i)), err)
	return err
}

// deleteVolume asks for the end of a volume.
func (s *sim) deleteVolume(i int) error {
	p := s.vols[i]
	if p == nil || p.gone {
		return nil
	}
	_, err := wire.VolumeDelete.Call(s.ctx(), s.world.site.reach(nil),
		&wire.VolumeDeleteRequest{Volume: volID(volName(i)), Wait: time.Second})
	if fault.Has(err, fault.NotFound) && (p.ended || !p.made) {
		return nil
	}
	v := s.snap().Volume(nil, volID(volName(i)))
	if !refusedFor(err) || v == nil || v.Status.Phase == volume.PhaseDeleting {
		p.ended = true
		p.gone = err == nil && p.made
	}
	s.note("the end of volume "+volName(i), err)
	return err
}

// calms ends every fault.
func (s *sim) calms() {
	s.site.Heal()
	s.site.Release()
	clear(s.site.fates)
	clear(s.asleep)
	s.provider.loses = nil
	for _, m := range s.staying() {
		s.starts(m)
	}
	for _, m := range s.machines {
		m.on()
	}
}

// starts starts a server unless it runs.
func (s *sim) starts(m *kit.Member) {
	if !m.Runs() {
		m.Start()
	}
}

// rounds is how many passes everything that was asked to end may take once nothing is wrong any more.
const rounds = 60

// settles ends every fault, asks for the end of everything, and holds that all of it ends, at the provider, too.
func (s *sim) settles() {
	s.tell("all faults end, and so shall everything else")
	s.calms()
	for range rounds {
		s.passes(1)
		if s.growing() == "" {
			break
		}
	}
	if left := s.growing(); left != "" {
		s.fails("%s", left)
	}
	for range rounds {
		s.passes(1)
		done := s.discarded()
		for i := range s.jobs {
			done = s.stopJob(i) == nil && done
		}
		if done && s.idle() {
			for i := range s.vols {
				done = s.deleteVolume(i) == nil && done
			}
		}
		if done && s.emptied() == "" && s.unlike() == "" {
			s.passes(2)
			s.site.compare()
			s.agree()
			s.judge(true)
			return
		}
	}
	s.fails("it does not come to rest: %s; %s", s.emptied(), s.unlike())
}

// idle reports whether no job has anything that runs.
func (s *sim) idle() bool {
	for a := range s.snap().Allocs(nil, "") {
		if !a.ClientTerminal() {
			return false
		}
	}
	return true
}

// emptied says what is left of volumes; empty: nothing.
func (s *sim) emptied() string {
	for v := range s.snap().Volumes(nil, wire.AllNamespaces, "") {
		return "volume " + v.ID.String() + " is " + string(v.Status.Phase)
	}
	for c := range s.snap().VolumeSnapshots(nil) {
		return "snapshot " + c.Name + " is " + string(c.Phase)
	}
	for _, t := range s.provider.things() {
		return "the provider has " + t.ID
	}
	r := s.rest()
	if len(r.Claims)+len(r.Attachments)+len(r.Mounts)+len(r.Dirs) > 0 {
		return fmt.Sprintf("%+v", r)
	}
	if !s.idle() {
		return "an allocation goes on"
	}
	return ""
}

// agree holds that every server has applied all that any has.
func (s *sim) agree() {
	ctx, cancel := context.WithTimeout(s.ctx(), time.Minute)
	defer cancel()
	var behind *kit.Member
	for range 100 {
		behind = nil
		at := s.snap().Index()
		for _, m := range s.staying() {
			if m.Store().Snapshot().Index() < at {
				behind = m
			}
		}
		if behind == nil || ctx.Err() != nil {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	if behind != nil {
		s.fails("%s does not catch up", behind.Name)
	}
	s.site.compare()
}
