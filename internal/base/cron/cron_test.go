package cron

import (
	"fmt"
	"strings"
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
		{"UTC", "0 0 * * * 2025", "2026-01-01T00:00:00Z", []string{"0001-01-01T00:00:00Z"}},
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
		{"localtime", "* * * * *"}, {"", "0 0 30 2 *"}, {"", "0 0 31 4,6 *"}, {"", "0 0 29 2 * 2027"},
		{"", "5-1 * * * *"}, {"", "5-1 3 * * *"}, {"", "5-1 * * * * * *"}, {"", "0 22-4/2 * * *"},
		{"", "1,5-1 * * * *"},
		{"", "0 0 1 dec-jan *"}, {"", "0 0 * * fri-mon"}, {"", "0 0 0 * * 5-1 *"}, {"", "0 0 * * * 2030-2027"},
		{"", "0 0 0 1 1 * * 9"}, {"", "@daily 9"}, {"", "0" + strings.Repeat(",0", 600) + " * * * *"},
	} {
		if _, err := Read(p[1:], p[0]); err == nil {
			t.Errorf("%q is taken", p)
		}
	}
	for _, text := range []string{
		"@daily", "0-0 * * * *", "0 0 * * fri-sun", "0 0 * * 1-7", "0 0 1 jan-dec *", "0 0 * * SAT", "0 0 29 2 *",
		"0 0 L * *", "0 0 * * 5#3", "0 0 1W * *", "1-5/2 0 0 * * 1-5 2027-2030",
	} {
		if _, err := Read([]string{text}, ""); err != nil {
			t.Error(err)
		}
	}
}

// Given days on which clocks are put on and back, when times are looked for from any moment of them, then they are
// those that come when each is looked for from the one before it, and the newest that was missed is the last of those.
func TestTimesAreTheSameFromEachMoment(t *testing.T) {
	for zone, days := range map[string][]string{
		"Europe/Berlin":       {"2026-03-28T20:00:00Z", "2026-10-24T20:00:00Z"},
		"Australia/Lord_Howe": {"2026-04-04T10:00:00Z", "2026-10-03T10:00:00Z"},
		"Pacific/Apia":        {"2011-12-29T20:00:00Z"}, // where a day was left out
		"UTC":                 {"2026-03-28T20:00:00Z"},
	} {
		for _, crons := range [][]string{{"*/7 * * * *"}, {"30 2 * * *", "15 1,2 * * *"}, {"50 59 1,2 * * * *"}} {
			tt := times(t, zone, crons...)
			for _, day := range days {
				begin := at(t, day)
				end := begin.Add(30 * time.Hour)
				var all []time.Time
				for n := tt.Next(begin); n.Before(end); n = tt.Next(n) {
					if len(all) > 0 && !n.After(all[len(all)-1]) {
						t.Fatalf("%q in %s: %s comes after %s", crons, zone, n, all[len(all)-1])
					}
					all = append(all, n)
				}
				const step = 97 * time.Second
				i := 0
				for from := begin; from.Before(end); from = from.Add(step) {
					for i < len(all) && !all[i].After(from) {
						i++
					}
					if i < len(all) && !tt.Next(from).Equal(all[i]) {
						t.Fatalf("%q in %s after %s: %s, not %s", crons, zone, from, tt.Next(from), all[i])
					}
					want := time.Time{}
					if i > 0 {
						want = all[i-1]
					}
					if got := tt.Missed(begin, from); !got.Equal(want) {
						t.Fatalf("%q in %s: missed until %s: %s, not %s", crons, zone, from, got, want)
					}
				}
			}
		}
	}
}

// counted is an expression that counts how often it is asked.
type counted struct {
	expression
	asked *int
}

func (c counted) Next(after time.Time) time.Time {
	*c.asked++
	return c.expression.Next(after)
}

// Given an expression that names every second, while clocks are put back, when the next and the newest of a day are
// looked for, then it is asked a few times, not as often as it names one.
func TestFewTimesAreLookedAt(t *testing.T) {
	tt := times(t, "Europe/Berlin", "* * * * * * 2026-2090")
	asked := 0
	tt.crons[0] = counted{tt.crons[0], &asked}
	now := at(t, "2026-10-25T01:10:00Z")
	if tt.Next(now); asked > 1 {
		t.Errorf("for the next one it is asked %d times", asked)
	}
	asked = 0
	if tt.Missed(now.AddDate(0, 0, -1), now); asked > 20 {
		t.Errorf("for the newest one it is asked %d times", asked)
	}
}
