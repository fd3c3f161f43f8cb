package session

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/base/lifecycle"
)

// changing is a description that changes once, at a moment of choice.
type changing struct {
	lifecycle.Signal
	version int
	moment  int // how many times it was looked at, or sent, before
	at      int // the moment in which it changes
}

func (c *changing) pass() {
	if c.moment++; c.moment == c.at {
		c.version++
		c.Notify()
	}
}

// Changed implements described.
func (c *changing) Changed() <-chan struct{} {
	c.pass()
	return c.C()
}

// Given a description that changes at any moment of a registration, then the newest is registered in the end, also when
// the first try has failed.
func TestNoChangeOfTheDescriptionIsMissed(t *testing.T) {
	const moments = 8
	for at := range moments {
		for failing := range 2 {
			t.Run(fmt.Sprintf("moment %d, %d failures", at, failing), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { changesAt(t, at+1, failing) })
			})
		}
	}
}

func changesAt(t *testing.T, at, failing int) {
	host, d := &changing{at: at}, &due{asked: true}
	tries, registered := 0, -1
	register := func(context.Context) error {
		host.pass()
		sent := host.version
		host.pass()
		if tries++; tries <= failing {
			return errors.New("nobody hears")
		}
		registered = sent
		return nil
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	if err := d.keep(ctx, host, register); err != nil {
		t.Fatal(err)
	}
	if registered != host.version {
		t.Errorf("version %d is registered, the description has version %d", registered, host.version)
	}
	if most := failing + 2; tries > most {
		t.Errorf("%d tries, want at most %d: one for the change", tries, most)
	}
}
