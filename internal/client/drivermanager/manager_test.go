package drivermanager_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/client/drivermanager"
	"berth/internal/port/driver"
	"berth/internal/port/driver/mock"
)

// slow takes its time to look at the node, counts its looks, and obeys the end of its context.
type slow struct {
	*mock.Driver
	mu    sync.Mutex
	takes time.Duration
	looks int
	after int // looks begun after the context ended
}

func (s *slow) Fingerprint(ctx context.Context) driver.Fingerprint {
	s.mu.Lock()
	s.looks++
	if ctx.Err() != nil {
		s.after++
	}
	takes := s.takes
	s.mu.Unlock()
	select {
	case <-time.After(takes):
	case <-ctx.Done():
		return driver.Fingerprint{Health: driver.Unhealthy, Description: ctx.Err().Error()}
	}
	return s.Driver.Fingerprint(ctx)
}

func (s *slow) set(takes time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.takes = takes
}

func (s *slow) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.looks
}

func named(name string, takes time.Duration) *slow {
	m := mock.New()
	m.DriverName = name
	return &slow{Driver: m, takes: takes}
}

func run(t *testing.T, m *drivermanager.Manager) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	g, gctx := lifecycle.NewGroup(ctx)
	g.Go("manager", func() error { return m.Run(gctx) })
	return func() {
		cancel()
		if err := g.Wait(); err != nil {
			t.Errorf("manager: %v", err)
		}
	}
}

func TestEveryDriverIsLoggedWithItsStateAndASilentOneAsSuch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		fast := named("fast", 0)
		mute := named("mute", time.Hour)
		absent := named("absent", 0)
		absent.SetHealth(driver.Fingerprint{Health: driver.Undetected, Description: "no such program"})
		m, err := drivermanager.New(
			drivermanager.Config{
				Drivers: []driver.Driver{fast, mute, absent},
				Log:     slog.New(slog.NewTextHandler(&log, nil)),
			})
		if err != nil {
			t.Fatal(err)
		}
		stop := run(t, m)
		synctest.Wait()
		if s := m.States(); s["fast"] == nil || !s["fast"].Healthy || s["mute"] != nil {
			t.Errorf("before the deadline: %v", s)
		}
		if list := m.States()["fast"].Attributes["driver.fast.options"]; !strings.Contains(list, ",") {
			t.Errorf("what the driver takes: %q", list)
		}
		<-m.Looked()
		synctest.Wait()
		s := m.States()
		if s["mute"] == nil || s["mute"].Healthy ||
			!strings.Contains(s["mute"].HealthDescription, "did not answer within 5s") {
			t.Errorf("the silent driver: %+v", s["mute"])
		}
		if s["absent"] == nil || s["absent"].Detected {
			t.Errorf("the absent driver: %+v", s["absent"])
		}
		for _, want := range []string{
			`level=INFO msg="task driver" driver=fast health=healthy`,
			`level=WARN msg="task driver" driver=mute health=unhealthy`,
			"did not answer",
			`level=INFO msg="task driver" driver=absent health=undetected`,
		} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("the log lacks %q:\n%s", want, log.String())
			}
		}
		mute.set(0)
		changed := m.Changed()
		<-changed
		if !m.States()["mute"].Healthy {
			t.Error("a driver that answers again stays unhealthy")
		}
		stop()
	})
}

func TestAfterItsEndNothingIsTried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		d := named("d", time.Hour)
		m, err := drivermanager.New(
			drivermanager.Config{Drivers: []driver.Driver{d}, Log: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		stop := run(t, m)
		time.Sleep(time.Second)
		begun := time.Now()
		stop()
		if took := time.Since(begun); took != 0 {
			t.Errorf("the end took %s", took)
		}
		looks := d.count()
		time.Sleep(time.Hour)
		if d.count() != looks || d.after != 0 {
			t.Errorf("%d looks after the end", d.count()-looks)
		}
		if log.Len() != 0 {
			t.Errorf("the end of a look was taken for the driver's failure:\n%s", log.String())
		}
	})
}

func TestDispenseAndRecoverNameWhatIsNotThere(t *testing.T) {
	m, err := drivermanager.New(
		drivermanager.Config{
			Drivers: []driver.Driver{named("a", 0), named("b", 0)},
			Log:     slog.New(slog.DiscardHandler),
		})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Dispense("a"); err != nil {
		t.Error(err)
	}
	if _, err := m.Dispense("docker"); !fault.Has(err, fault.NotFound) ||
		!strings.Contains(err.Error(), "it has a, b") {
		t.Errorf("an unknown driver: %v", err)
	}
	// A task of a driver that was switched off may run: that is not "gone".
	if _, err := m.Recover(t.Context(), driver.TaskHandle{Driver: "docker", Task: "t"}); !fault.Has(err,
		fault.NotReady) {
		t.Errorf("a task of an unknown driver: %v", err)
	}
	if _, err := drivermanager.New(
		drivermanager.Config{Drivers: []driver.Driver{named("a", 0), named("a", 0)}}); !fault.Has(err, fault.Invalid) {
		t.Errorf("two of one name: %v", err)
	}
}

// Given a driver whose tasks have no root of their own and that says they have, then the node does not say so: whoever
// may have commands run in tasks would reach the node by them.
func TestADriversWordDoesNotConfineItsTasks(t *testing.T) {
	boast := mock.New()
	boast.DriverName = "boast"
	m, err := drivermanager.New(drivermanager.Config{
		Drivers: []driver.Driver{&boasting{boast}},
		Log:     slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	g, gctx := lifecycle.NewGroup(ctx)
	g.Go("manager", func() error { return m.Run(gctx) })
	<-m.Looked()
	said := m.States()["boast"].Attributes
	cancel()
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	if said["driver.boast.confined"] != "" || said["driver.boast.version"] != "7" {
		t.Errorf("the node says %v", said)
	}
}

// boasting is a driver that says of its tasks that they are confined.
type boasting struct{ *mock.Driver }

func (b *boasting) Info() driver.Info {
	info := b.Driver.Info()
	info.Capabilities.FSIsolation = driver.IsolationNone
	return info
}

func (*boasting) Fingerprint(context.Context) driver.Fingerprint {
	return driver.Fingerprint{Health: driver.Healthy, Attributes: map[string]string{
		"driver.boast.confined": "1", "driver.boast.version": "7",
	}}
}

// keeping is a driver that keeps tasks by itself, and may not know which.
type keeping struct {
	*mock.Driver
	tasks   []string
	err     error
	dropped int
}

func (k *keeping) Keeps(ids.Alloc) ([]string, error) { return k.tasks, k.err }

func (k *keeping) Drop(context.Context, ids.Alloc) error {
	k.dropped++
	return nil
}

// Given drivers that keep tasks by themselves, when it is asked whether one keeps any of an alloc, then one that does
// not know may, whatever the others say; and those that keep something have it dropped, which is not said where one
// does not know.
func TestADriverThatDoesNotKnowMayKeepATask(t *testing.T) {
	none, some := &keeping{Driver: mock.New()}, &keeping{Driver: mock.New(), tasks: []string{"t"}}
	lost := &keeping{Driver: mock.New(), err: errors.New("the disk does not answer")}
	none.DriverName, some.DriverName = "none", "some"
	lost.DriverName = "lost"
	for name, c := range map[string]struct {
		drivers []driver.Driver
		says    string // empty: nothing is kept
	}{
		"none": {[]driver.Driver{none, mock.New()}, ""},
		"some": {[]driver.Driver{none, some}, `driver some may have its task "t"`},
		"lost": {[]driver.Driver{none, lost}, "the disk does not answer"},
	} {
		m, err := drivermanager.New(drivermanager.Config{Drivers: c.drivers, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		if gone, why := m.Gone("a1"); gone != (c.says == "") || why != c.says {
			t.Errorf("%s: gone %v, %q", name, gone, why)
		}
		if err := m.Drop(t.Context(), "a1"); (err != nil) != (name == "lost") {
			t.Errorf("%s: the drop: %v", name, err)
		}
	}
	if none.dropped != 0 || some.dropped != 1 {
		t.Errorf("dropped are %d, %d", none.dropped, some.dropped)
	}
}

// renamed is a driver of somebody else, which learns its name when its plugin is connected.
type renamed struct {
	*keeping
	name chan string
}

func (r *renamed) Follow(ctx context.Context, say func(driver.Fingerprint)) error {
	say(driver.Fingerprint{Health: driver.Unhealthy})
	select {
	case <-ctx.Done():
		return nil
	case r.DriverName = <-r.name:
	}
	say(driver.Fingerprint{Health: driver.Healthy})
	r.name <- ""
	<-ctx.Done()
	return nil
}

// Given a driver that turns out to have another name than it was known by, then the node says nothing of the other one
// any more; and of one that is not there it is not said that it made no network.
func TestADriverIsKnownByOneName(t *testing.T) {
	d := &renamed{keeping: &keeping{Driver: mock.New()}, name: make(chan string)}
	d.DriverName = "block"
	m, err := drivermanager.New(drivermanager.Config{Drivers: []driver.Driver{d}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	g, gctx := lifecycle.NewGroup(ctx)
	g.Go("manager", func() error { return m.Run(gctx) })
	<-m.Looked()
	before := slices.Sorted(maps.Keys(m.States()))
	d.name <- "own"
	<-d.name
	after := slices.Sorted(maps.Keys(m.States()))
	cancel()
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	if !slices.Equal(before, []string{"block"}) || !slices.Equal(after, []string{"own"}) {
		t.Errorf("it is known by %q, then by %q", before, after)
	}
	if _, err := m.NetworkMaker("block"); !fault.Has(err, fault.NotReady) {
		t.Errorf("a network of one that is not there: %v", err)
	}
}
