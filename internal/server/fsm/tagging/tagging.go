// Package tagging owns the commands by which people name versions of jobs. Packages of the server half may import it.
package tagging

import (
	"fmt"
	"strings"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/job"
	"berth/internal/server/fsm"
	"berth/internal/server/state"
)

func init() {
	fsm.Register[Tag]("job-tag", job.SchemaTags, "server/endpoint")
	fsm.Register[Untag]("job-untag", job.SchemaTags, "server/endpoint")
}

// What a name and what is said beside it may be at most, in bytes.
const (
	maxName        = 128
	maxDescription = 1000
)

// Tag names a version of a job. A name that the version had goes.
type Tag struct {
	Namespace         ids.Namespace
	Job               ids.Job
	Version           *uint64 // nil: the newest
	Name, Description string
}

// Apply returns the *job.VersionTag.
func (c *Tag) Apply(tx *state.Tx, st fsm.Stamp) (any, error) {
	now := tx.Job(nil, c.Namespace, c.Job)
	if now == nil {
		return nil, refuse(fault.NotFound, c.Job, "", "job not found")
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	version := now.Version
	if c.Version != nil {
		version = *c.Version
	}
	typed := ids.Typed(c.Namespace, c.Job)
	v := tx.JobVersion(nil, c.Namespace, c.Job, now.CreateIndex, version)
	if v == nil {
		return nil, refuse(fault.NotFound, c.Job, "see which versions there are with: berth job history "+typed,
			"version %d is not there: it never was, or is forgotten", version)
	}
	names := 0
	for _, other := range tx.JobVersions(nil, c.Namespace, c.Job) {
		switch t := other.VersionTag; {
		case t == nil || other.Version == version:
		case t.Name == c.Name:
			return nil, refuse(fault.Conflict, c.Job, "take it away first: berth job tag unset -name "+c.Name+" "+typed,
				"tag %q already exists on a different version, %d", c.Name, other.Version)
		default:
			names++
		}
	}
	if names >= job.MaxTags {
		return nil, refuse(fault.Invalid, c.Job, "take some away: berth job tag unset -name NAME "+typed,
			"%d of its versions have names, and no more may: they are kept", names)
	}
	n := *v
	n.VersionTag = &job.VersionTag{Name: c.Name, Description: c.Description, TaggedTime: st.Time.UnixNano()}
	tx.PutJobVersion(&n)
	return n.VersionTag, nil
}

func (c *Tag) check() error {
	switch {
	case c.Name == "" || len(c.Name) > maxName:
		return refuse(fault.Invalid, c.Job, "", "a tag's name must have 1 to %d bytes, has %d", maxName, len(c.Name))
	case strings.ContainsAny(c.Name, "/\x00"):
		return refuse(fault.Invalid, c.Job, "", "a tag's name must not contain \"/\" or NUL, is %q", c.Name)
	case len(c.Description) > maxDescription:
		return refuse(fault.Invalid, c.Job, "", "the tag's description has %d bytes, and may have %d",
			len(c.Description), maxDescription)
	}
	return nil
}

// Untag takes the name of a version away: the version goes when it is one of too many.
type Untag struct {
	Namespace ids.Namespace
	Job       ids.Job
	Name      string
}

// Apply returns nil.
func (c *Untag) Apply(tx *state.Tx, _ fsm.Stamp) (any, error) {
	v := job.Tagged(tx.JobVersions(nil, c.Namespace, c.Job), c.Name)
	if v == nil {
		return nil, refuse(fault.NotFound, c.Job, "see the tags with: berth job history "+ids.Typed(c.Namespace, c.Job),
			"tag %q not found", c.Name)
	}
	n := *v
	n.VersionTag = nil
	tx.PutJobVersion(&n)
	return nil, nil
}

func refuse(kind fault.Kind, id ids.Job, hint, format string, args ...any) error {
	return fault.WithHint(fault.New(kind, "tag", fmt.Sprintf("job %q", id), fmt.Sprintf(format, args...)), hint)
}
