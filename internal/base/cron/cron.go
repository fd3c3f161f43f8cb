// Package cron owns the times that cron expressions name in a time zone. It has no clock: time is given. Everybody may
// import it.
package cron

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/cronexpr"
)

// Times are the times that several cron expressions name in one time zone. Wall clocks jump: a time that a day does not
// have, because clocks go forward over it, counts once, at the change; one that a day has twice counts the first time
// that it comes.
type Times struct {
	crons []*cronexpr.Expression
	zone  *time.Location
}

// Read reads expressions and a zone; empty: UTC. The error names the one that is none.
func Read(crons []string, zone string) (*Times, error) {
	if zone == "" {
		zone = "UTC"
	}
	if zone == "Local" { // of which server?
		return nil, fmt.Errorf("time_zone %q is that of a machine: name one, as \"Europe/Berlin\"", zone)
	}
	loc, err := time.LoadLocation(zone)
	if err != nil {
		return nil, fmt.Errorf("time_zone %q is not known: use a name like \"Europe/Berlin\": %w", zone, err)
	}
	t := &Times{zone: loc}
	if len(crons) == 0 {
		return nil, errors.New("it has no times: write crons = [\"0 3 * * *\"]")
	}
	for _, text := range crons {
		if strings.TrimSpace(text) == "" {
			return nil, errors.New("a cron expression is empty: write five fields, as \"0 3 * * *\"")
		}
		c, err := parse(text)
		if err != nil {
			return nil, fmt.Errorf("cron expression %q: %w", text, err)
		}
		t.crons = append(t.crons, c)
	}
	return t, nil
}

// parse stands an expression at which the library panics.
func parse(text string) (c *cronexpr.Expression, err error) {
	defer func() {
		if p := recover(); p != nil {
			c, err = nil, fmt.Errorf("it can't be read: %v", p)
		}
	}()
	return cronexpr.Parse(text)
}

// Next is the first time after another one; zero: there is none.
func (t *Times) Next(after time.Time) (next time.Time) {
	for _, c := range t.crons {
		if n := t.next(c, after); !n.IsZero() && (next.IsZero() || n.Before(next)) {
			next = n
		}
	}
	return next
}

// next counts on a clock that never jumps and shows what clocks of the zone show, and looks up when they showed it.
func (t *Times) next(c *cronexpr.Expression, after time.Time) time.Time {
	// An hour twice shown begins again: what stands in front of the change may lie behind "after" on the wall.
	shown := wall(after.In(t.zone)).Add(-maxJump)
	for range maxTries {
		shown = c.Next(shown)
		if shown.IsZero() {
			return time.Time{}
		}
		if at := t.instant(shown); at.After(after) {
			return at
		}
	}
	return time.Time{}
}

const (
	// maxJump is more than a clock was ever put back, but for the date line, where it is put on.
	maxJump = 3 * time.Hour
	// maxTries is more than an expression with seconds names in twice that.
	maxTries = 3*60*60*2 + 2
)

// wall is what a clock shows, as a time in UTC.
func wall(at time.Time) time.Time {
	return time.Date(at.Year(), at.Month(), at.Day(), at.Hour(), at.Minute(), at.Second(), 0, time.UTC)
}

// instant is when clocks of the zone first show what is wanted; when they jump over it, the moment of the jump.
func (t *Times) instant(shown time.Time) time.Time {
	// time.Date leaves open which of two it takes: both are looked at, by the offsets before and behind.
	_, before := shown.Add(-24 * time.Hour).In(t.zone).Zone()
	_, behind := shown.Add(24 * time.Hour).In(t.zone).Zone()
	first := shown.Add(-time.Duration(max(before, behind)) * time.Second)
	second := shown.Add(-time.Duration(min(before, behind)) * time.Second)
	for _, at := range []time.Time{first, second} {
		if wall(at.In(t.zone)).Equal(shown) {
			return at.In(t.zone)
		}
	}
	// Nothing shows it: the change lies between the two.
	low, high := first, second
	_, then := low.In(t.zone).Zone()
	for high.Sub(low) > time.Second {
		mid := low.Add(high.Sub(low) / 2).Truncate(time.Second)
		if _, o := mid.In(t.zone).Zone(); o == then {
			low = mid
		} else {
			high = mid
		}
	}
	return high.In(t.zone)
}

// Missed is the newest time after one and not after another; zero: there is none. It costs the same however much lies
// between the two.
func (t *Times) Missed(after, now time.Time) time.Time {
	for back := time.Minute; ; back *= 2 {
		from := now.Add(-back)
		if from.Before(after) {
			from = after
		}
		last := time.Time{}
		for n := t.Next(from); !n.IsZero() && !n.After(now); n = t.Next(n) {
			last = n
		}
		if !last.IsZero() || !from.After(after) {
			return last
		}
	}
}
