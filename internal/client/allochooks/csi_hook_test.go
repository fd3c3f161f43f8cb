package allochooks_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/client/allochooks"
	"berth/internal/client/csimanager"
	"berth/internal/client/hook"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/volume"
	"berth/internal/port/driver"
)

// servers answer with one reply after another, and remember what they were asked.
type servers struct {
	answers []func() (*csimanager.Grants, error)
	waits   []time.Duration
	seen    []string
}

func (s *servers) Grants(_ context.Context, _ ids.Alloc, wait time.Duration, seen string) (*csimanager.Grants, error) {
	s.waits, s.seen = append(s.waits, wait), append(s.seen, seen)
	if len(s.answers) == 0 {
		return nil, fault.New(fault.Internal, "ask", "the servers", "asked more often than the story has answers")
	}
	next := s.answers[0]
	s.answers = s.answers[1:]
	return next()
}

func waits(token string, reasons ...string) func() (*csimanager.Grants, error) {
	r := &csimanager.Grants{Token: token}
	for i, text := range reasons {
		r.Waiting = append(r.Waiting,
			csimanager.WaitReason{Volume: volume.ID{ID: ids.Volume([]string{"db", "log"}[i])}, Reason: text})
	}
	return func() (*csimanager.Grants, error) { return r, nil }
}

func grants(names ...string) func() (*csimanager.Grants, error) {
	r := &csimanager.Grants{Ready: true}
	for _, n := range names {
		r.Mounts = append(r.Mounts,
			csimanager.MountRequest{Alias: n, Volume: volume.ID{ID: ids.Volume(n)}, Key: keyOf(n)})
	}
	return func() (*csimanager.Grants, error) { return r, nil }
}

func refuses(err error) func() (*csimanager.Grants, error) {
	return func() (*csimanager.Grants, error) { return nil, err }
}

func keyOf(name string) volume.PublicationKey {
	return volume.PublicationKey{StagingKey: volume.StagingKey{Plugin: "p", ExternalID: name}, Alloc: "a1"}
}

// mounter mounts as the test says.
type mounter struct {
	csimanager.VolumeMounter
	mount   func(context.Context, csimanager.MountRequest) error
	unmount func(volume.PublicationKey) error
	dead    error // why no task may start on what is mounted

	mu       sync.Mutex
	known    []volume.PublicationKey
	gone     []string
	released []ids.Alloc
}

func (m *mounter) MountVolume(ctx context.Context, r csimanager.MountRequest) (csimanager.MountInfo, error) {
	m.mu.Lock()
	m.known = append(m.known, r.Key) // the want is durable, whatever becomes of it
	m.mu.Unlock()
	if m.mount != nil {
		if err := m.mount(ctx, r); err != nil {
			return csimanager.MountInfo{}, err
		}
	}
	return csimanager.MountInfo{Alias: r.Alias, Key: r.Key, Source: "/mnt/" + r.Alias}, nil
}

func (m *mounter) Mounted(context.Context, volume.PublicationKey, bool) error { return m.dead }

func (m *mounter) UnmountVolume(_ context.Context, k volume.PublicationKey) error {
	if m.unmount != nil {
		if err := m.unmount(k); err != nil {
			return err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.known = slices.DeleteFunc(m.known, func(o volume.PublicationKey) bool { return o == k })
	m.gone = append(m.gone, k.ExternalID)
	return nil
}

func (m *mounter) Publications(ids.Alloc) []volume.PublicationKey {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.known)
}

func (m *mounter) Published() []csimanager.PublishedVolume { return nil }

func (m *mounter) Released(a ids.Alloc) { m.released = append(m.released, a) }

// subject is an alloc whose one task mounts the volumes, with the events that it got.
type subject struct {
	*hook.Alloc
	mu     sync.Mutex
	events []string
	mounts driver.MountConfig
}

func allocWith(volumes ...string) *subject {
	s := &subject{}
	task := &job.Task{Name: "web", Driver: "exec"}
	g := &job.TaskGroup{
		Name:    "group",
		Tasks:   []*job.Task{{Name: "side", Driver: "raw_exec"}, task},
		Volumes: map[string]*job.VolumeRequest{},
	}
	for _, v := range volumes {
		g.Volumes[v] = &job.VolumeRequest{Name: v, Type: job.VolumeTypeCSI, Source: v}
		task.VolumeMounts = append(task.VolumeMounts, &job.VolumeMount{Volume: v, Destination: "/" + v})
	}
	s.Alloc = &hook.Alloc{
		Alloc:  &alloc.Alloc{ID: "a1"},
		Job:    &job.Job{ID: "shop"},
		Group:  g,
		Mounts: new(hook.Mounts),
		Driver: func(string) (driver.Info, error) {
			return driver.Info{Capabilities: driver.Capabilities{Mounts: s.mounts}}, nil
		},
		Emit: func(e *alloc.TaskEvent) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.events = append(s.events, e.Type+": "+e.DisplayMessage)
		},
	}
	return s
}

func TestEachNewReasonIsOneEventAndThenAllIsMounted(t *testing.T) {
	srv := &servers{
		answers: []func() (*csimanager.Grants, error){waits("1", "held by another"), waits("2", "held by another"),
			waits("3", "being attached", "no plugin"), grants("db", "log")},
	}
	m, a := &mounter{}, allocWith("db", "log")
	h := &allochooks.CSI{Grants: srv, Mounter: m, Uses: m, Processes: &gate{}}
	if err := h.Prerun(t.Context(), a.Alloc); err != nil {
		t.Fatal(err)
	}
	want := []string{alloc.EventStorageWaiting + `: volume "db": held by another`,
		alloc.EventStorageWaiting + `: volume "db": being attached; volume "log": no plugin`}
	if !slices.Equal(a.events, want) {
		t.Errorf("events %q", a.events)
	}
	if !slices.Equal(srv.seen, []string{"", "1", "2", "3"}) || srv.waits[0] != 0 || srv.waits[1] != 30*time.Second {
		t.Errorf("asked with %q and %v: the first question is answered at once, the others wait for news", srv.seen,
			srv.waits)
	}
	got := a.Mounts.Get()
	if len(got) != 2 || got["db"].Source != "/mnt/db" || got["log"].Key != keyOf("log") {
		t.Errorf("handed on: %v", got)
	}
}

func TestAnAllocWithoutVolumesAsksNobody(t *testing.T) {
	srv := &servers{}
	m := &mounter{}
	a := allocWith()
	h := &allochooks.CSI{Grants: srv, Mounter: m, Uses: m, Processes: &gate{}}
	if err := errors.Join(h.Prerun(t.Context(), a.Alloc), h.Postrun(t.Context(), a.Alloc)); err != nil ||
		len(srv.seen) > 0 || len(m.released) > 0 {
		t.Errorf("%v, asked %q, released %q", err, srv.seen, m.released)
	}
}

// A refusal fails the alloc; servers that cannot be asked only make it wait.
func TestWhatIsFinalAndWhatIsWaiting(t *testing.T) {
	for _, c := range []struct{ said, want fault.Kind }{
		{fault.Invalid, fault.Invalid}, {fault.Denied, fault.Denied}, {fault.NotFound, fault.NotFound}, {fault.Conflict,
			fault.Conflict},
		{fault.Unsupported, fault.Unsupported}, {fault.Unavailable, fault.NotReady}, {fault.Timeout, fault.NotReady},
		{fault.Internal, fault.NotReady}} {
		h := &allochooks.CSI{
			Grants: &servers{
				answers: []func() (*csimanager.Grants, error){refuses(
					fault.New(c.said, "grant", "x", "the very reason"))},
			},
			Mounter: &mounter{},
		}
		a := allocWith("db")
		err := h.Prerun(t.Context(), a.Alloc)
		if fault.KindOf(err) != c.want || !strings.Contains(err.Error(), "the very reason") ||
			!strings.Contains(err.Error(), `allocation "a1"`) {
			t.Errorf("%v became %v", c.said, err)
		}
		if got := a.Mounts.Get(); got != nil {
			t.Error("mounts were handed on although nothing is mounted")
		}
	}
}

// One volume that is refused permanently ends the wait for the others, and Postrun releases all that was wanted.
func TestARefusedMountUnwindsTheOthers(t *testing.T) {
	m, a := &mounter{}, allocWith("db", "log", "slow")
	m.mount = func(ctx context.Context, r csimanager.MountRequest) error {
		switch r.Alias {
		case "log":
			return fault.New(fault.Invalid, "stage", `volume "log"`, "the file system is not known")
		case "slow":
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	}
	h := &allochooks.CSI{
		Grants:  &servers{answers: []func() (*csimanager.Grants, error){grants("db", "log", "slow")}},
		Mounter: m,
	}
	if err := h.Prerun(t.Context(), a.Alloc); !fault.Has(err, fault.Invalid) || !hook.IsForStorage(err) ||
		!strings.Contains(err.Error(), "the file system is not known") {
		t.Errorf("got %v", err)
	}
	if got := a.Mounts.Get(); got != nil {
		t.Error("some of the mounts were handed on")
	}
	wanted := len(m.Publications("a1"))
	m.unmount = func(k volume.PublicationKey) error {
		return fault.New(fault.Busy, "unmount", k.ExternalID, "somebody is in it")
	}
	if err := h.Postrun(t.Context(), a.Alloc); !fault.Has(err, fault.Busy) || len(m.released) > 0 {
		t.Errorf("released %q although %v", m.released, err)
	}
	m.unmount = nil
	if err := h.Postrun(t.Context(), a.Alloc); err != nil || wanted == 0 || len(m.gone) != wanted ||
		!slices.Equal(m.released, []ids.Alloc{"a1"}) {
		t.Errorf("%v; %d wanted, gone %q, released %q", err, wanted, m.gone, m.released)
	}
}

// A mount that takes a moment is nobody's concern; one that takes longer tells what it waits for, and a call that goes
// well when it has lasted.
func TestALongMountTellsWhatItWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, a := &mounter{}, allocWith("db")
		m.mount = func(_ context.Context, r csimanager.MountRequest) error {
			r.Progress("staging", true)
			time.Sleep(3 * time.Second)
			r.Progress("publishing", true)
			r.Progress("the plugin is silent", false)
			r.Progress("the plugin is silent", false)
			time.Sleep(8 * time.Second)
			r.Progress("publishing", true)
			return nil
		}
		h := &allochooks.CSI{
			Grants:    &servers{answers: []func() (*csimanager.Grants, error){grants("db")}},
			Mounter:   m,
			Uses:      m,
			Processes: &gate{},
		}
		if err := h.Prerun(t.Context(), a.Alloc); err != nil {
			t.Fatal(err)
		}
		if want := []string{alloc.EventStorageWaiting + `: volume "db": the plugin is silent`,
			alloc.EventStorageWaiting + `: volume "db": publishing`}; !slices.Equal(a.events, want) {
			t.Errorf("events %q", a.events)
		}
	})
}

// An alloc that was stopped while it waited is no failure of its volumes.
func TestAnEndedWaitIsNoRefusal(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	m, a := &mounter{}, allocWith("db")
	m.mount = func(ctx context.Context, _ csimanager.MountRequest) error { cancel(); <-ctx.Done(); return ctx.Err() }
	err := (&allochooks.CSI{
		Grants:  &servers{answers: []func() (*csimanager.Grants, error){grants("db")}},
		Mounter: m,
	}).Prerun(ctx, a.Alloc)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if got := a.Mounts.Get(); got != nil {
		t.Error("mounts were handed on")
	}
}

func TestADriverThatMountsNothingIsRefusedByName(t *testing.T) {
	srv, a := &servers{}, allocWith("db")
	a.mounts = driver.MountNone
	err := (&allochooks.CSI{Grants: srv, Mounter: &mounter{}}).Prerun(t.Context(), a.Alloc)
	if !fault.Has(err, fault.Invalid) || hook.IsForStorage(err) || len(srv.seen) > 0 {
		t.Fatalf("got %v, asked %q", err, srv.seen)
	}
	for _, word := range []string{`job "shop"`, `group "group"`, `task "web"`, `driver "exec"`, `volume "db"`,
		"use a driver that can", "remove the task's volume_mount"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%q does not say %q", err, word)
		}
	}
	a.Alloc.Driver = func(name string) (driver.Info, error) {
		return driver.Info{}, fault.New(fault.NotReady, "find", `driver "`+name+`"`, "it is not there")
	}
	if err := allochooks.CheckMountSupport(a.Alloc); !fault.Has(err, fault.NotReady) {
		t.Errorf("a driver that is not there: %v", err)
	}
}
