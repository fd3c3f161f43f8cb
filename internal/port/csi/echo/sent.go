package echo

import (
	"crypto/sha256"
	"strconv"
	"sync"

	"berth/internal/base/redact"
)

// most bounds how many values of secrets are remembered of a plugin.
const most = 256

// Sent are the values of secrets that a plugin was sent. It may say any of them at any time, in answers to calls that
// carry none too: a volume's condition, the lists of the provider. The zero value is ready.
type Sent struct {
	mu     sync.Mutex
	values redact.Map // by the digest of the value: equal ones are one
}

// Remember adds secrets; beyond the bound any earlier one is forgotten.
func (s *Sent) Remember(secrets redact.Map) {
	if len(secrets) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.values == nil {
		s.values = redact.Map{}
	}
	for _, v := range withQuoted(secrets) {
		if len(s.values) >= most {
			for k := range s.values {
				delete(s.values, k)
				break
			}
		}
		digest := sha256.Sum256([]byte(v.Reveal()))
		s.values[string(digest[:])] = v
	}
}

// Listed is an id of a list, which nobody asked for. One that holds what some call has sent is masked, so that it is no
// id any more (redact.Map.Holds).
func (s *Sent) Listed(id string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.values.Holds(id) {
		return id
	}
	return s.values.Scrub(id)
}

// Scrub masks what was sent in the plugin's words.
func (s *Sent) Scrub(text string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.values.Scrub(text)
}

// Scrub masks secrets in text, also where the plugin quoted them.
func Scrub(secrets redact.Map, text string) string {
	if len(secrets) == 0 {
		return text
	}
	return withQuoted(secrets).Scrub(text)
}

func withQuoted(secrets redact.Map) redact.Map {
	all := make(redact.Map, len(secrets))
	for name, v := range secrets {
		all[name] = v
		if q := strconv.Quote(v.Reveal()); q[1:len(q)-1] != v.Reveal() {
			all[name+"\x00quoted"] = redact.New(q[1 : len(q)-1])
		}
	}
	return all
}
