// Package cron owns the times that cron expressions name in a time zone. It has no clock: time is given. Everybody may
// import it.
package cron

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/cronexpr"
)

// Times are the times that several cron expressions name in one time zone. Wall clocks jump: a time that a day does not
// have, because clocks go forward over it, counts once, at the change; one that a day has twice counts the first time
// that it comes.
type Times struct {
	crons []expression
	zone  *time.Location
}

// expression names times of a clock that never jumps.
type expression interface {
	Next(after time.Time) time.Time
}

// Read reads expressions and a zone; empty: UTC. The error names the one that is none.
func Read(crons []string, zone string) (*Times, error) {
	if zone == "" {
		zone = "UTC"
	}
	if strings.EqualFold(zone, "local") || strings.EqualFold(zone, "localtime") { // of which server?
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

// maxText bounds an expression; one that lists all minutes and hours has about 240 bytes.
const maxText = 1024

// parse refuses, besides what the library does, what it passes over: further fields, and ranges from the larger to the
// smaller, which leave a field that names nothing. With one of those it looks for a next time for very long, or panics.
func parse(text string) (c *cronexpr.Expression, err error) {
	defer func() {
		if p := recover(); p != nil {
			c, err = nil, fmt.Errorf("it can't be read: %v", p)
		}
	}()
	if len(text) > maxText {
		return nil, fmt.Errorf("it has %d bytes, and may have %d", len(text), maxText)
	}
	fields := strings.Fields(text)
	if n := len(fields); n > maxFields || n > 1 && strings.Contains(text, "@") {
		return nil, errors.New("it has more fields than a time has: write five, as \"0 3 * * *\"")
	}
	for i, field := range fields {
		days := i == 4 && len(fields) < maxFields || i == 5 && len(fields) == maxFields
		for entry := range strings.SplitSeq(strings.ToLower(field), ",") {
			if backwards(entry, days) {
				return nil, fmt.Errorf("%q runs from the larger to the smaller, and would never come: write it as a "+
					"list, or as two ranges", entry)
			}
		}
	}
	if c, err = cronexpr.Parse(text); err != nil {
		return nil, err
	}
	if c.Next(time.Date(1969, 12, 31, 23, 59, 59, 0, time.UTC)).IsZero() {
		return nil, errors.New("it never comes: no year that it names has such a day")
	}
	return c, nil
}

// maxFields are seconds, minutes, hours, days, months, days of the week and years.
const maxFields = 7

// backwards reports whether part of a field is a range that ends before it begins. Weeks may end with Sunday.
func backwards(entry string, days bool) bool {
	span, _, _ := strings.Cut(entry, "/")
	from, to, is := strings.Cut(span, "-")
	first, last := value(from), value(to)
	return is && first >= 0 && last >= 0 && first > last && (!days || last > 0)
}

// value is what a number, or a name of a month or a day, stands for, among those of its kind; -1: it is none.
func value(text string) int {
	if n, err := strconv.Atoi(text); err == nil {
		return n
	}
	for _, names := range []string{"janfebmaraprmayjunjulaugsepoctnovdec", "sunmontuewedthufrisat"} {
		if len(text) >= 3 {
			if at := strings.Index(names, text[:3]); at >= 0 && at%3 == 0 {
				return at / 3
			}
		}
	}
	return -1
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

// next counts on a clock that never jumps and shows what clocks of the zone show, and looks up when they showed it. It
// costs the same for every expression: it begins at the furthest that clocks have shown, and all that lies behind that
// comes later.
func (t *Times) next(c expression, after time.Time) time.Time {
	shown := c.Next(t.furthest(after))
	if shown.IsZero() {
		return time.Time{}
	}
	return t.instant(shown)
}

// furthest is the furthest that clocks of the zone have shown until a time. Where they were put back it is what they
// showed before, until they show more again.
func (t *Times) furthest(until time.Time) time.Time {
	until = until.In(t.zone)
	shown := wall(until)
	if change, _ := until.ZoneBounds(); !change.IsZero() {
		if before := wall(change.Add(-time.Second).In(t.zone)); before.After(shown) {
			return before
		}
	}
	return shown
}

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
// between the two: as far as a next time is not after "now", there is one to find, so the second at which that ends is
// looked for by halves.
func (t *Times) Missed(after, now time.Time) time.Time {
	last := t.Next(after)
	if last.IsZero() || last.After(now) {
		return time.Time{}
	}
	for low, high := last.Unix(), now.Unix(); low < high; {
		mid := low + (high-low)/2
		if n := t.Next(time.Unix(mid, 0)); !n.IsZero() && !n.After(now) {
			last, low = n, n.Unix()
		} else {
			high = mid
		}
	}
	return last
}
