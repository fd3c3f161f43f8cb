package cron

import (
	"slices"
	"testing"
	"time"
)

// BenchmarkNext is what one look at a job costs that names the same far time again and again.
func BenchmarkNext(b *testing.B) {
	for name, crons := range map[string][]string{
		"daily":                         {"0 3 * * *"},
		"every second":                  {"* * * * * * *"},
		"100 times seconds until 2090":  slices.Repeat([]string{"* * * * * * 2026-2090"}, 100),
		"100 times a day of a far year": slices.Repeat([]string{"0 0 29 2 * 2096"}, 100),
	} {
		b.Run(name, func(b *testing.B) {
			t, err := Read(crons, "Europe/Berlin")
			if err != nil {
				b.Fatal(err)
			}
			now := time.Date(2026, 10, 25, 0, 45, 0, 0, time.UTC)
			for b.Loop() {
				t.Next(now)
			}
		})
	}
}

// BenchmarkMissed is what it costs to find the newest of many times.
func BenchmarkMissed(b *testing.B) {
	t, err := Read([]string{"* * 0-4 * * * *"}, "Europe/Berlin")
	if err != nil {
		b.Fatal(err)
	}
	now := time.Date(2026, 6, 1, 20, 0, 0, 0, time.UTC)
	for b.Loop() {
		t.Missed(now.Add(-30*24*time.Hour), now)
	}
}
