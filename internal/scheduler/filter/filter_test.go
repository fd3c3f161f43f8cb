package filter

import (
	"strings"
	"testing"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
)

func TestEveryOperatorSaysYesAndNo(t *testing.T) {
	n := &node.Node{
		ID:         "id1",
		Name:       "alpha",
		Datacenter: "dc1",
		NodeClass:  "big",
		NodePool:   "gpu",
		Attributes: map[string]string{"n": "10", "v": "1.4.2", "pre": "2.0.0-rc.1", "set": "a, b,c", "os": "debian",
			"twin": "10"},
		Meta: map[string]string{"m": "x"},
	}
	cases := []struct {
		left, op, right string
		want            bool
	}{
		{"${attr.os}", "", "debian", true},
		{"${attr.os}", "=", "arch", false},
		{"${attr.os}", "is", "debian", true},
		{"${attr.none}", "==", "", false},
		{"${attr.os}", "!=", "arch", true},
		{"${attr.os}", "not", "debian", false},
		{"${attr.none}", "!=", "x", true},
		{"${attr.n}", "=", "${attr.twin}", true},
		{"${attr.n}", "<", "9", false},
		{"${attr.n}", ">", "9", true}, // as numbers, not as texts
		{"${attr.n}", "<=", "10", true},
		{"${attr.n}", ">=", "10.5", false},
		{"${attr.os}", ">", "arch", true},
		{"${attr.none}", "<", "9", false},
		{"${attr.os}", "regexp", "^deb", true},
		{"${attr.os}", "regexp", "^ian", false},
		{"${attr.v}", "version", ">= 1.4, < 2", true},
		{"${attr.v}", "version", "~> 1.4.0", true},
		{"${attr.v}", "version", "~> 1.3.0", false},
		{"${attr.v}", "version", "~> 1", true},
		{"${attr.v}", "version", "1.4.3", false},
		{"${attr.pre}", "version", ">= 1.0", false}, // says nothing of prereleases
		{"${attr.pre}", "semver", ">= 1.0.0", true},
		{"${attr.pre}", "semver", ">= 2.0.0", false},
		{"${attr.pre}", "semver", "> 2.0.0-beta.9", true},
		{"${attr.os}", "version", ">= 1", false},
		{"${attr.set}", "set_contains", "c,a", true},
		{"${attr.set}", "set_contains_all", "a,d", false},
		{"${attr.set}", "set_contains_any", "d,b", true},
		{"${attr.set}", "set_contains_any", "d,e", false},
		{"${meta.m}", "is_set", "", true},
		{"${meta.none}", "is_set", "", false},
		{"${meta.none}", "is_not_set", "", true},
		{"${meta.m}", "is_not_set", "", false},
		{"${node.unique.id}", "=", "id1", true},
		{"${node.unique.name}", "=", "alpha", true},
		{"${node.datacenter}", "=", "dc1", true},
		{"${node.class}", "=", "big", true},
		{"${node.pool}", "=", "gpu", true},
		{"${node.region}", "=", "here", true},
		{"${nothing.known}", "=", "x", false},
		{"10", "=", "10", true},
	}
	for _, c := range cases {
		f := NewConstraints("here")
		r := &Request{
			Job:   &job.Job{Constraints: []*job.Constraint{{LTarget: c.left, Operand: c.op, RTarget: c.right}}},
			Group: &job.TaskGroup{},
		}
		if !f.Prepare(r) {
			t.Fatal("a constraint was not seen")
		}
		key := f.Check(n)
		if (key == "") != c.want {
			t.Errorf("%s %s %s: %q, want passing %t", c.left, c.op, c.right, key, c.want)
		}
		if key != "" {
			if !strings.HasPrefix(key, c.left) {
				t.Errorf("the key %q does not begin with the left side", key)
			}
			if reason, _ := f.Explain(n); !strings.Contains(reason, c.left) {
				t.Errorf("%s %s %s is explained by %q", c.left, c.op, c.right, reason)
			}
		}
	}
}

func TestAConstraintThatCannotBeReadPassesNoNodeAndSaysWhy(t *testing.T) {
	for _, k := range []*job.Constraint{
		{LTarget: "${attr.os}", Operand: "regexp", RTarget: "("},
		{LTarget: "${attr.os}", Operand: "version", RTarget: ">= x"},
		{LTarget: "${attr.os}", Operand: "semver", RTarget: "~> 1.0.0"},
		{LTarget: "${attr.os}", Operand: "semver", RTarget: "1.0"},
		{LTarget: "${attr.os}", Operand: "resembles", RTarget: "x"},
	} {
		f := NewConstraints("")
		f.Prepare(&Request{
			Job:   &job.Job{},
			Group: &job.TaskGroup{Tasks: []*job.Task{{Constraints: []*job.Constraint{k}}}},
		})
		n := &node.Node{Attributes: map[string]string{"os": "1.0.0"}}
		if f.Check(n) == "" {
			t.Errorf("%v passes", k)
		}
		if reason, _ := f.Explain(n); !strings.Contains(reason, "cannot be read") {
			t.Errorf("%v: %q", k, reason)
		}
	}
}

func TestDatacentersAreGlobsAndPoolsHaveADefault(t *testing.T) {
	n := &node.Node{Datacenter: "eu-west-1"}
	for globs, want := range map[string]bool{"*": true, "eu-*": true, "us-*": false, "eu-west-1": true,
		"eu-west-[12]": true} {
		f := &Datacenters{}
		f.Prepare(&Request{Job: &job.Job{Datacenters: []string{"nowhere", globs}}})
		if got := f.Check(n) == ""; got != want {
			t.Errorf("%s: %t", globs, got)
		}
	}
	for _, c := range []struct {
		job, node string
		want      bool
	}{{"", "", true}, {"default", "", true}, {"all", "gpu", true}, {"gpu", "gpu", true}, {"gpu", "", false}} {
		chain := Prepare(&Request{Job: &job.Job{NodePool: c.job}}, &Pool{})
		_, key := chain.Check(&node.Node{NodePool: c.node})
		if (key == "") != c.want {
			t.Errorf("pool %q on %q: %q", c.job, c.node, key)
		}
	}
}

// stored is the state that a ledger reads.
type stored struct {
	volumes map[ids.Volume]*volume.Volume
	claims  []*volume.Claim
	allocs  map[ids.Alloc]*alloc.Alloc
}

func (s *stored) Volume(id volume.ID) *volume.Volume { return s.volumes[id.ID] }
func (s *stored) Claims(id volume.ID) []*volume.Claim {
	var out []*volume.Claim
	for _, c := range s.claims {
		if c.Volume == id {
			out = append(out, c)
		}
	}
	return out
}
func (s *stored) Shortage(ids.Node, volume.StagingKey, string) *plugin.Shortage { return nil }
func (s *stored) Holdings(ids.Node) []volume.StagingKey                         { return nil }
func (s *stored) Alloc(id ids.Alloc) *alloc.Alloc                               { return s.allocs[id] }
func (s *stored) Instances(n *node.Node) []*plugin.Instance                     { return n.CSI }
func (s *stored) put(m volume.AccessMode) *stored {
	s.volumes["v"] = volumeOf(m)
	return s
}
func volumeOf(m volume.AccessMode) *volume.Volume {
	return &volume.Volume{ID: volume.ID{ID: "v"}, Status: volume.Status{Phase: volume.PhaseReady},
		Spec: volume.Spec{Capabilities: []volume.Capability{{AccessMode: m, AttachmentMode: volume.FileSystem}}}}
}

func newStored() *stored {
	return &stored{volumes: map[ids.Volume]*volume.Volume{}, allocs: map[ids.Alloc]*alloc.Alloc{}}
}

func (s *stored) user(id string, m volume.AccessMode, ro bool, st volume.ClaimState, a *alloc.Alloc) {
	if a != nil {
		s.allocs[ids.Alloc(id)] = a
	}
	s.claims = append(s.claims, &volume.Claim{
		Volume:         volume.ID{ID: "v"},
		Alloc:          ids.Alloc(id),
		AccessMode:     m,
		AttachmentMode: volume.FileSystem,
		ReadOnly:       ro,
		State:          st,
		Job:            "other",
	})
}

func TestTheFiveModesAdmitWhomTheyMay(t *testing.T) {
	running, stopping := &alloc.Alloc{DesiredStatus: alloc.DesiredRun}, &alloc.Alloc{DesiredStatus: alloc.DesiredStop}
	const no = ""
	cases := []struct {
		name      string
		mode      volume.AccessMode
		ro        bool
		present   func(*stored)
		want      volume.ClaimState
		key, says string
	}{
		{"a free volume", volume.SingleNodeWriter, false, nil, volume.Held, no, no},
		{"a reader of a free one", volume.SingleNodeReader, true, nil, volume.Held, no, no},
		{"one held", volume.SingleNodeWriter, false, func(s *stored) {
			s.user("a", volume.SingleNodeWriter, false, volume.Held, running)
		}, no,
			"CSI volume v has exhausted its available writer claims", `alloc a of job "other" holds it`},
		{"one held by an alloc that ends", volume.SingleNodeWriter, false, func(s *stored) {
			s.user("a", volume.SingleNodeWriter, false, volume.Held, stopping)
		}, volume.Queued, no, no},
		{"one that is being released", volume.SingleNodeWriter, false, func(s *stored) {
			s.user("a", volume.SingleNodeWriter, false, volume.Releasing, nil)
		}, volume.Queued, no, no},
		{"one with somebody in the queue", volume.SingleNodeWriter, false, func(s *stored) {
			s.user("gone", volume.SingleNodeWriter, false, volume.Releasing, nil)
			s.user("b", volume.SingleNodeWriter, false, volume.Queued, running)
		}, no, "CSI volume v has exhausted its available writer claims (still held by garbage-collected alloc gone)",
			"waits for it already"},
		{"one whose next one is stopped", volume.SingleNodeWriter, false, func(s *stored) {
			s.user("a", volume.SingleNodeWriter, false, volume.Held, stopping)
			s.user("b", volume.SingleNodeWriter, false, volume.Queued, stopping)
		}, volume.Queued, no, no},
		{"many readers", volume.MultiNodeReader, true, func(s *stored) {
			s.user("a", volume.MultiNodeReader, true, volume.Held, running)
		}, volume.Held, no, no},
		{"a writer of a reader's volume", volume.MultiNodeReader, false, nil, no,
			"CSI volume v is unschedulable or is read-only", "for readers only"},
		{"a reader beside the writer", volume.MultiNodeSingleWriter, true, func(s *stored) {
			s.user("a", volume.MultiNodeSingleWriter, false, volume.Held, running)
		}, volume.Held, no, no},
		{"a second writer", volume.MultiNodeSingleWriter, false, func(s *stored) {
			s.user("a", volume.MultiNodeSingleWriter, false, volume.Held, running)
		}, no,
			"CSI volume v has exhausted its available writer claims", "holds it"},
		{"a writer beside readers", volume.MultiNodeSingleWriter, false, func(s *stored) {
			s.user("a", volume.MultiNodeSingleWriter, true, volume.Held, running)
		}, volume.Held, no, no},
		{"many writers", volume.MultiNodeMultiWriter, false, func(s *stored) {
			s.user("a", volume.MultiNodeMultiWriter, false, volume.Held, running)
		}, volume.Held, no, no},
	}
	for _, c := range cases {
		s := newStored().put(c.mode)
		if c.present != nil {
			c.present(s)
			s.volumes["v"].Status.AccessMode, s.volumes["v"].Status.AttachmentMode = c.mode, volume.FileSystem
		}
		r := &job.VolumeRequest{
			Type:           job.VolumeTypeCSI,
			AccessMode:     string(c.mode),
			AttachmentMode: string(volume.FileSystem),
			ReadOnly:       c.ro,
		}
		g := NewLedger(s).Admit(r, volume.ID{ID: "v"}, "n")
		switch {
		case c.key == "" && g.Refused != nil:
			t.Errorf("%s: refused: %v", c.name, *g.Refused)
		case c.key == "" && g.State != c.want:
			t.Errorf("%s: %s, want %s", c.name, g.State, c.want)
		case c.key != "" && g.Refused == nil:
			t.Errorf("%s: admitted as %s", c.name, g.State)
		case c.key != "" && (g.Refused.Key != c.key || !strings.Contains(g.Refused.Reason, c.says)):
			t.Errorf("%s: %q, %q", c.name, g.Refused.Key, g.Refused.Reason)
		}
	}
}

func TestAVolumesCurrentUseBindsTheNextOne(t *testing.T) {
	s := newStored().put(volume.MultiNodeMultiWriter)
	v := s.volumes["v"]
	v.Spec.MountOptions = &volume.MountOptions{FSType: "ext4", MountFlags: []string{"noatime", "nodev"}}
	v.Status.AccessMode, v.Status.AttachmentMode = volume.MultiNodeMultiWriter, volume.FileSystem
	v.Status.MountOptions = &volume.MountOptions{FSType: "ext4", MountFlags: []string{"nodev", "noatime"}}
	r := &job.VolumeRequest{AccessMode: string(volume.MultiNodeMultiWriter), AttachmentMode: string(volume.FileSystem)}
	admit := func() *Refusal { return NewLedger(s).Admit(r, volume.ID{ID: "v"}, "n").Refused }
	if got := admit(); got != nil {
		t.Errorf("another spelling of the same options: %v", got)
	}
	r.MountOptions = &job.MountOptions{MountFlags: []string{"noatime"}}
	if got := admit(); got == nil || !strings.Contains(got.Reason, "other mount options") {
		t.Errorf("other options: %v", got)
	}
	r.MountOptions = nil
	r.AttachmentMode = string(volume.BlockDevice)
	v.Spec.Capabilities = append(v.Spec.Capabilities,
		volume.Capability{AccessMode: volume.MultiNodeMultiWriter, AttachmentMode: volume.BlockDevice})
	if got := admit(); got == nil || !strings.Contains(got.Reason, "is in use as") {
		t.Errorf("another attachment mode: %v", got)
	}
	r.AccessMode = string(volume.SingleNodeWriter)
	if got := admit(); got == nil || !strings.Contains(got.Reason, "was made for") {
		t.Errorf("a mode that it was not made for: %v", got)
	}
}
