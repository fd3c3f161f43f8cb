package cron

import (
	"fmt"
	"testing"
	"time"
)

func times(t *testing.T, zone string, crons ...string) *Times {
	t.Helper()
	out, err := Read(crons, zone)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func at(t *testing.T, text string) time.Time {
	t.Helper()
	out, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Given cron expressions in a zone, when clocks there go forward, back, or do neither, then the times are these: what
// is jumped over counts once, at the jump, and what comes twice counts once, the first time.
func TestTimesAcrossChangesOfTheClock(t *testing.T) {
	for _, c := range []struct {
		zone, cron, after string
		want              []string
	}{
		{"UTC", "*/15 * * * *", "2026-01-01T00:00:00Z", []string{
			"2026-01-01T00:15:00Z", "2026-01-01T00:30:00Z",
		}},
		{"Europe/Berlin", "30 2 * * *", "2026-03-27T12:00:00Z", []string{
			"2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z",
		}},
		{"Europe/Berlin", "30 2 * * *", "2026-10-23T12:00:00Z", []string{
			"2026-10-24T00:30:00Z", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z",
		}},
		{"Europe/Berlin", "*/30 1-3 * * *", "2026-03-29T00:15:00Z", []string{
			"2026-03-29T00:30:00Z", "2026-03-29T01:00:00Z", "2026-03-29T01:30:00Z", "2026-03-29T23:00:00Z",
		}},
		{"America/New_York", "30 1 * * *", "2026-10-31T12:00:00Z", []string{
			"2026-11-01T05:30:00Z", "2026-11-02T06:30:00Z",
		}},
		{"Australia/Lord_Howe", "10 2 * * *", "2026-10-03T00:00:00Z", []string{
			"2026-10-03T15:30:00Z", "2026-10-04T15:10:00Z",
		}},
		{"UTC", "0 0 30 2 *", "2026-01-01T00:00:00Z", []string{"0001-01-01T00:00:00Z"}},
	} {
		now, tt := at(t, c.after), times(t, c.zone, c.cron)
		var got []string
		for range c.want {
			now = tt.Next(now)
			got = append(got, now.UTC().Format(time.RFC3339))
		}
		if fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%q in %s after %s:\n got %v\nwant %v", c.cron, c.zone, c.after, got, c.want)
		}
	}
}

// Given several expressions, when they name one time, then it comes once.
func TestSeveralExpressionsAreOneListOfTimes(t *testing.T) {
	tt := times(t, "", "0 * * * *", "0,20 * * * *")
	now := at(t, "2026-01-01T00:00:00Z")
	for _, want := range []string{"00:20", "01:00", "01:20"} {
		if now = tt.Next(now); now.Format("15:04") != want {
			t.Fatalf("got %s, want %s", now, want)
		}
	}
}

// Given what is no time, when it is read, then the error says what.
func TestWhatIsNoTimeIsRefused(t *testing.T) {
	for _, p := range [][]string{
		{""}, {"", ""}, {"", "61 * * * *"}, {"", "soon"}, {"Mars/Base", "* * * * *"}, {"Local", "* * * * *"},
	} {
		if _, err := Read(p[1:], p[0]); err == nil {
			t.Errorf("%q is taken", p)
		}
	}
}
