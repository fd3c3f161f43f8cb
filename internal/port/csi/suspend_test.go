package csi_test

import (
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"berth/internal/base/bootclock"
	"berth/internal/base/fault"
	"berth/internal/conformance/csi/csitest"
	"berth/internal/conformance/csi/proxy"
	"berth/internal/port/csi"
)

// machine is one whose time since boot a test sets; Go's clock does not see its suspends.
type machine struct {
	boot  atomic.Int64
	clock *bootclock.Clock
}

func newMachine() *machine {
	m := &machine{}
	m.clock = bootclock.New(func() time.Duration { return time.Duration(m.boot.Load()) })
	return m
}

// sleeps has it suspended until the longest budget of a call has passed.
func (m *machine) sleeps() { m.boot.Add(int64(time.Hour)) }

// leavesNothing shows that no ended call has a budget still.
func (m *machine) leavesNothing(t *testing.T) {
	t.Helper()
	if m.sleeps(); m.clock.Expire() != 0 {
		t.Error("a call that has ended left its budget behind")
	}
}

// passed shows that a call ended as one whose time has passed.
func passed(t *testing.T, err error, sent bool) *csi.Error {
	t.Helper()
	e, is := csi.AsError(err)
	if !is || e.Code != codes.DeadlineExceeded || e.Sent != sent || !fault.Has(err, fault.Timeout) ||
		!csi.TimedOut(err) {
		t.Fatalf("err = %+v", err)
	}
	return e
}

func TestACallThatASuspendOutlastsHasAnUnknownEnd(t *testing.T) {
	p := csitest.Alone(t, csitest.Options{Rules: []string{"(CreateVolume * hang once)"}})
	m := newMachine()
	c := p.Dial(csi.Options{Clock: m.clock, Timeouts: map[csi.RPC]time.Duration{csi.CreateVolume: time.Hour}})
	_, err := c.Negotiate(t.Context(), csi.RoleMonolith)
	ok(t, err)
	ended := make(chan error, 1)
	go func() {
		_, err := c.CreateVolume(t.Context(),
			csi.CreateVolumeRequest{Name: "db", Capabilities: []csi.VolumeCapability{fsWriter}})
		ended <- err
	}()
	begun(t, p, "CreateVolume")
	m.sleeps()
	if n := m.clock.Expire(); n != 1 {
		t.Fatalf("%d calls ended with the suspend", n)
	}
	if e := passed(t, <-ended, true); e.Finality != csi.Unknown {
		t.Errorf("its end is %v", e.Finality)
	}
	m.leavesNothing(t)
}

// begun waits until a call of the plugin is under way.
func begun(t *testing.T, p *csitest.Plugin, rpc string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		for _, e := range p.Entries() {
			if e.RPC == rpc && e.Kind == proxy.CallBegins {
				return
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s never began", rpc)
		}
	}
}

func TestAnAnswerThatASuspendOutlastsIsNotBelieved(t *testing.T) {
	m := newMachine()
	p := &plain{answers: m.sleeps}
	socket, _ := serve(t, p)
	c, err := csi.Dial(t.Context(), socket, csi.Options{Plugin: "p", Clock: m.clock})
	ok(t, err)
	t.Cleanup(func() { ok(t, c.Close()) })
	_, err = c.Probe(t.Context())
	passed(t, err, true)
	m.leavesNothing(t)
}

func TestACallWhoseTimePassedInASuspendIsNotSent(t *testing.T) {
	p := csitest.Alone(t, csitest.Options{})
	m := newMachine()
	ctx, cancel := m.clock.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	m.sleeps()
	err := p.Connect().DeleteVolume(ctx, csi.DeleteVolumeRequest{VolumeID: "v"})
	if e := passed(t, err, false); e.Finality != csi.Final {
		t.Errorf("its end is %v", e.Finality)
	}
	if calls := p.Calls(); len(calls) > 0 {
		t.Errorf("sent %v", calls)
	}
}
