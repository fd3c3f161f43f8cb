// Package acl owns what access control lists say: policies and their language, what several of them allow together, and
// the shapes and bounds of the tokens and roles that carry them. It decides and stores nothing: servers keep the
// objects, and ask Rules. The language is that of Nomad's policies, as HashiCorp documents it.
package acl

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/pattern"
)

// AnonymousPolicy is the name of the policy of requests without a token. Without such a policy they may do nothing.
const AnonymousPolicy = "anonymous"

// Bounds of what is stored, in bytes of text and in characters of names.
const (
	MaxRules       = 64 << 10
	maxName        = 128
	maxTokenName   = 256
	maxDescription = 256
	maxReferences  = 1000 // policies and roles of one token or role
)

// Policy is a text of rules under a name. What it allows is read from the text, with Parse.
type Policy struct {
	Name        string
	Description string
	Rules       string
	// Job are the tasks whose identities have the policy, beside the tokens that name it; nil: none have.
	Job         *JobScope `cbor:",omitempty"`
	CreateIndex uint64
	ModifyIndex uint64
}

// JobScope is a job, or a part of it.
type JobScope struct {
	Namespace   ids.Namespace
	Job         ids.Job
	Group, Task string // empty: all of them
}

// Covers tells whether a task of the job is meant.
func (s *JobScope) Covers(group, task string) bool {
	return (s.Group == "" || s.Group == group) && (s.Task == "" || s.Task == task)
}

// check says what is wrong with a scope.
func (s *JobScope) check() []string {
	switch {
	case s == nil:
		return nil
	case s.Job == "" && (s.Group != "" || s.Task != "" || s.Namespace != ""):
		return []string{"JobACL names a namespace, a group or a task and no job; name the job, too"}
	case s.Job == "":
		return []string{"JobACL names no job; name one, or leave it out"}
	case s.Task != "" && s.Group == "":
		return []string{"JobACL names a task and no group; name the group, too"}
	}
	if err := ids.ValidJob(string(s.Job)); err != nil {
		return []string{"JobACL: job: " + err.Error()}
	}
	return nil
}

// Role is a list of policies under a name, so that what many tokens may do is changed in one place.
type Role struct {
	ID          string
	Name        string
	Description string
	Policies    []string // names; one that is gone gives nothing
	CreateIndex uint64
	ModifyIndex uint64
}

// Key is a policy's place in lists.
func (p *Policy) Key() string { return p.Name }

// Key is a role's place in lists.
func (r *Role) Key() string { return r.ID }

var plainName = pattern.Of(`^[A-Za-z0-9-]+$`)

// Validate checks name, description and text. The error has every finding of the text. What an earlier program took,
// and logs and snapshots may have, it takes: see ValidateNew.
func (p *Policy) Validate() error { return p.validate(Parse) }

// ValidateNew is Validate for what somebody writes now: a pattern that no name can match is a finding, too.
func (p *Policy) ValidateNew() error { return p.validate(ParseNew) }

func (p *Policy) validate(parse func(name, text string) (*Document, []Finding)) error {
	problems := append(checkName(p.Name), checkDescription(p.Description)...)
	problems = append(problems, p.Job.check()...)
	_, found := parse(p.Name, p.Rules)
	for _, f := range found {
		problems = append(problems, f.String())
	}
	return refuse("policy", p.Name, problems)
}

// Validate checks names and bounds. Whether its policies exist, the state knows.
func (r *Role) Validate() error {
	problems := append(checkName(r.Name), checkDescription(r.Description)...)
	problems = append(problems, checkReferences("policies", r.Policies)...)
	if len(r.Policies) == 0 {
		problems = append(problems, "it has no policy, so it would give nothing; name one at least")
	}
	return refuse("role", r.Name, problems)
}

func checkName(name string) []string {
	switch {
	case name == "":
		return []string{"it has no name; give it one of letters, digits and dashes"}
	case len(name) > maxName:
		return []string{fmt.Sprintf("its name has %d characters, at most %d are allowed", len(name), maxName)}
	case !plainName().MatchString(name):
		return []string{"its name may have letters, digits and dashes; write it without the other characters"}
	}
	return nil
}

func checkDescription(text string) []string {
	if n := utf8.RuneCountInString(text); n > maxDescription {
		return []string{fmt.Sprintf("its description has %d characters, at most %d are allowed; shorten it", n,
			maxDescription)}
	}
	return nil
}

func checkReferences(what string, names []string) []string {
	if len(names) > maxReferences {
		return []string{fmt.Sprintf("it has %d %s, at most %d are allowed; put several into one", len(names), what,
			maxReferences)}
	}
	return nil
}

// refuse makes one error of what is wrong with an object, nil of nothing.
func refuse(kind, name string, problems []string) error {
	if len(problems) == 0 {
		return nil
	}
	return fault.New(fault.Invalid, "accept", fmt.Sprintf("%s %q", kind, name), strings.Join(problems, "\n"))
}
