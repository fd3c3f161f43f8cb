package drivermanager_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/base/fault"
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
