package external

import (
	"sync"

	"berth/internal/port/driver"
)

// sayer passes on how a plugin is: what it says itself, but for as long as it does not answer, which nobody says of
// itself.
type sayer struct {
	mu   sync.Mutex
	say  func(driver.Fingerprint)
	last driver.Fingerprint // of the plugin
	why  error              // it does not answer
}

func (y *sayer) begin(say func(driver.Fingerprint)) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.say = say
}

// word is one of the plugin's own.
func (y *sayer) word(f driver.Fingerprint) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.last = f; y.why == nil {
		y.say(f)
	}
}

// now says how the plugin is although it did not: it is not connected any more.
func (y *sayer) now(f driver.Fingerprint) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.last, y.why = f, nil
	y.say(f)
}

// silent says that a plugin does not answer; nil: it does again, and is as it said last.
func (y *sayer) silent(why error) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.why = why
	f := y.last
	if why != nil {
		f.Health, f.Description = driver.Unhealthy, why.Error()
	}
	if f.Health != "" { // it has said nothing yet
		y.say(f)
	}
}
