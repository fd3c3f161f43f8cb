package seldom

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestWhatComesOftenIsSaidSeldom: ten times in a minute, and then with how often it was not.
func TestWhatComesOftenIsSaidSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l Log
		said := 0
		for range 1000 {
			if _, say := l.Say(); say {
				said++
			}
		}
		if said != most {
			t.Errorf("said %d times", said)
		}
		time.Sleep(window)
		if missed, say := l.Say(); !say || missed != 1000-most {
			t.Errorf("after a minute: %t, %d were not said", say, missed)
		}
		if missed, say := l.Say(); !say || missed != 0 {
			t.Errorf("again: %t, %d were not said", say, missed)
		}
	})
}
