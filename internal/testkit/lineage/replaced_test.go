package lineage

import (
	"testing"
	"testing/synctest"

	"berth/internal/model/volume"
)

// Given three servers and a job that writes to a volume, when each server is replaced by another one as it leads, then
// the job's process is the one that it was, the three others keep the log alone, and what was there is.
func TestAllServersAreReplacedUnderAWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, 3, 2)
		defer s.close()
		s.create(1)
		s.submitJob(1, 1)
		s.passes(3)
		starts := len(s.tasks)
		if starts != 1 {
			s.fails("the job has started %d times", starts)
		}
		for range 3 {
			old := s.site.Members[len(s.site.removed)]
			s.join()
			s.passes(4)
			if left := s.unlike(); left != "" {
				s.fails("%s", left)
			}
			s.handOver(old)
			s.passes(1)
			s.removeServer(old)
			s.passes(3)
			if !s.site.removed[old] {
				s.fails("%s was not removed", old.Name)
			}
			if now := s.leader(); now == nil || now == old {
				s.fails("%s leads, and was removed", old.Name)
			}
		}
		if len(s.tasks) != starts {
			s.fails("the job was started anew")
		}
		if n := len(s.staying()); n != 3 || s.unlike() != "" {
			s.fails("%d servers stay: %s", n, s.unlike())
		}
		s.settles()
	})
}

// Given a volume that a job writes to, when it is to be larger and a snapshot of it is made, and at each the server
// that leads and the agents crash as its request is under way, then the volume, its file system and the snapshot are as
// asked, made once.
func TestAVolumeGrowsAndIsCutAsLeadersCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, 3, 2)
		defer s.close()
		s.create(1)
		s.submitJob(1, 1)
		s.passes(3)
		for i, ask := range []func(){func() { s.expand(1, 5<<20) }, func() { s.cut(1, 1) }} {
			lead := s.leader()
			s.site.asked = (i + 1) % 3
			ask()
			for _, m := range s.machines { // what was asked of its agent is forgotten, and its report comes first
				m.kill()
				if m.on(); !m.agent.reportsFirst() {
					m.kill()
					m.on()
				}
			}
			lead.Crash()
			s.passes(3)
			s.starts(lead)
		}
		for range rounds {
			if s.passes(1); s.growing() == "" {
				break
			}
		}
		v := s.snap().Volume(nil, volID("v1"))
		size, fs := s.provider.sizes(v.Status.ExternalID)
		if size != 5<<20 || fs != size || v.Status.Capacity != size || v.Status.NodeExpandPending {
			s.fails("the volume has %d bytes, its file system %d: %+v", size, fs, v.Status)
		}
		c := s.snap().VolumeSnapshot(nil, s.cuts[1].id)
		if c == nil || c.Phase != volume.PhaseReady || len(s.provider.cuts) != 1 {
			s.fails("the snapshot is %+v, and the provider has %d", c, len(s.provider.cuts))
		}
		s.settles()
	})
}
