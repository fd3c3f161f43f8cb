package tagging_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/job"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/tagging"
	"berth/internal/testkit/localstate"
)

type house struct {
	*localstate.Cluster
	t *testing.T
}

// run registers the job once more, saying something else each time.
func (h house) run(times int) {
	for range times {
		j := &job.Job{
			Namespace:  ids.DefaultNamespace,
			ID:         "web",
			Name:       "web",
			Type:       job.TypeService,
			Priority:   50,
			NodePool:   "default",
			Meta:       map[string]string{"at": strconv.FormatUint(h.Store.Snapshot().Index(), 10)},
			TaskGroups: []*job.TaskGroup{{Name: "g", Tasks: []*job.Task{{Name: "t", Driver: "exec"}}}},
		}
		h.Must(h.t, &fsm.JobRegister{Job: j, Seed: ids.New()})
	}
}

func (h house) tag(name string, version uint64) error {
	_, _, err := h.Propose(h.t.Context(),
		&tagging.Tag{Namespace: ids.DefaultNamespace, Job: "web", Name: name, Version: &version})
	return err
}

func (h house) untag(name string) error {
	_, _, err := h.Propose(h.t.Context(), &tagging.Untag{Namespace: ids.DefaultNamespace, Job: "web", Name: name})
	return err
}

// kept lists the versions that are kept with their names, newest first.
func (h house) kept() string {
	var out []string
	for _, v := range h.Store.Snapshot().JobVersions(nil, ids.DefaultNamespace, "web") {
		text := strconv.FormatUint(v.Version, 10)
		if v.VersionTag != nil {
			text += v.VersionTag.Name
		}
		out = append(out, text)
	}
	return strings.Join(out, " ")
}

// TestAVersionWithANameIsKept however many come after it, beside as many without one as ever; without its name it goes
// like those.
func TestAVersionWithANameIsKept(t *testing.T) {
	h := house{localstate.New(t), t}
	h.run(2)
	if err := h.tag("golden", 1); err != nil {
		t.Fatal(err)
	}
	h.run(10)
	if got := h.kept(); got != "11 10 9 8 7 6 1golden" {
		t.Errorf("kept: %s", got)
	}
	if err := h.untag("golden"); err != nil {
		t.Fatal(err)
	}
	h.run(1)
	if got := h.kept(); got != "12 11 10 9 8 7" {
		t.Errorf("kept: %s", got)
	}
}

// TestANameIsOfOneVersion: another version does not get it, the same one gets another instead, and a version that is
// made of one with a name has none.
func TestANameIsOfOneVersion(t *testing.T) {
	h := house{localstate.New(t), t}
	h.run(2)
	if err := h.tag("a", 0); err != nil {
		t.Fatal(err)
	}
	if err := h.tag("a", 1); err == nil || !strings.Contains(err.Error(), "already exists on a different version") {
		t.Errorf("two versions with one name: %v", err)
	}
	if err := h.tag("b", 0); err != nil {
		t.Fatal(err)
	}
	again := *h.Store.Snapshot().JobVersions(nil, ids.DefaultNamespace, "web")[1]
	h.Must(t, &fsm.JobRegister{Job: &again, Seed: ids.New()})
	if got := h.kept(); got != "2 1 0b" {
		t.Errorf("kept: %s", got)
	}
	if err := h.tag("now", 2); err != nil {
		t.Fatal(err)
	}
	h.Must(t, &fsm.JobDeregister{Namespace: ids.DefaultNamespace, Job: "web", Seed: ids.New()})
	if got := h.kept(); got != "3 2now 1 0b" {
		t.Errorf("after a stop: %s", got)
	}
}

// TestWhatCannotBeTaggedSaysWhy names each reason.
func TestWhatCannotBeTaggedSaysWhy(t *testing.T) {
	h := house{localstate.New(t), t}
	h.run(1)
	version := func(n uint64) error { return h.tag("x", n) }
	for want, err := range map[string]error{
		"version 7 is not there":  version(7),
		"must have 1 to":          h.tag("", 0),
		"must not contain":        h.tag("a/b", 0),
		`tag "gone" not found`:    h.untag("gone"),
		"must have 1 to 128 byte": h.tag(strings.Repeat("a", 129), 0),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	h.run(job.MaxTags)
	var refused []string
	for i := range job.MaxTags + 1 {
		h.run(1)
		now := h.Store.Snapshot().Job(nil, ids.DefaultNamespace, "web").Version
		if err := h.tag("n"+strconv.Itoa(i), now); err != nil {
			refused = append(refused, strconv.Itoa(i))
			if !fault.Has(err, fault.Invalid) {
				t.Errorf("one name too many is no mistake of the caller's: %v", err)
			}
		}
	}
	if !slices.Equal(refused, []string{strconv.Itoa(job.MaxTags)}) {
		t.Errorf("refused: %v", refused)
	}
}
