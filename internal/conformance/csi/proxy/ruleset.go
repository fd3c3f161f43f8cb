package proxy

import (
	"errors"
	"os"
	"sync"
)

// ruleset holds the rules of a file and how often each has met a call and acted.
type ruleset struct {
	path string

	mu     sync.Mutex
	stamp  string
	rules  []Rule
	counts map[string]*counts // by the rule's text
}

type counts struct{ met, acted int }

// reload reads the file when it changed.
func (s *ruleset) reload() error {
	if s.path == "" {
		return nil
	}
	b, err := os.ReadFile(s.path)
	if errors.Is(err, os.ErrNotExist) {
		b, err = nil, nil
	}
	if err != nil {
		return err
	}
	if string(b) == s.stamp {
		return nil
	}
	rules, err := ParseRules(string(b))
	if err != nil {
		return err
	}
	kept := map[string]*counts{}
	for _, r := range rules {
		if kept[r.String()] = s.counts[r.String()]; kept[r.String()] == nil {
			kept[r.String()] = &counts{}
		}
	}
	s.rules = rules
	s.counts = kept
	s.stamp = string(b)
	return nil
}

// has reports whether the file still has a rule.
func (s *ruleset) has(r Rule) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.reload()
	_, there := s.counts[r.String()]
	return there, err
}

// pick returns the rules that act on a call, and counts them as used.
func (s *ruleset) pick(rpc, volume string) ([]Rule, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.reload(); err != nil {
		return nil, err
	}
	var out []Rule
	for _, r := range s.rules {
		if !r.matches(rpc, volume) {
			continue
		}
		c := s.counts[r.String()]
		c.met++
		if c.met < r.Nth || r.Times > 0 && c.acted >= r.Times {
			continue
		}
		c.acted++
		out = append(out, r)
	}
	return out, nil
}
