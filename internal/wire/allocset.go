package wire

import (
	"fmt"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/lineage"
)

// allocSet is an AllocSet on the wire: each job version once, however many allocs are of it. A thousand allocs of a job
// with long templates would not fit into a message otherwise.
type allocSet struct {
	At       lineage.Point
	Relation lineage.Relation
	Full     bool
	Jobs     []*job.Job
	Bundles  []bundle
	Gone     []ids.Alloc
}

// bundle names its job by its place in allocSet.Jobs, from 1; 0: none.
type bundle struct {
	Alloc *alloc.Alloc
	Job   int
}

// MarshalCBOR writes jobs that bundles share once.
func (s AllocSet) MarshalCBOR() ([]byte, error) {
	out := allocSet{
		At:       s.At,
		Relation: s.Relation,
		Full:     s.Full,
		Gone:     s.Gone,
		Bundles:  make([]bundle, len(s.Bundles)),
	}
	places := map[*job.Job]int{nil: 0}
	for i, b := range s.Bundles {
		at, known := places[b.Job]
		if !known {
			out.Jobs = append(out.Jobs, b.Job)
			at = len(out.Jobs)
			places[b.Job] = at
		}
		out.Bundles[i] = bundle{Alloc: b.Alloc, Job: at}
	}
	return Encode(out)
}

// UnmarshalCBOR gives bundles of one job version the same job: it must not be changed.
func (s *AllocSet) UnmarshalCBOR(data []byte) error {
	var in allocSet
	if err := Decode(data, &in); err != nil {
		return err
	}
	*s = AllocSet{At: in.At, Relation: in.Relation, Full: in.Full, Gone: in.Gone}
	if len(in.Bundles) > 0 {
		s.Bundles = make([]alloc.Bundle, len(in.Bundles))
	}
	for i, b := range in.Bundles {
		if b.Job < 0 || b.Job > len(in.Jobs) {
			return fmt.Errorf("bundle %d names job %d of %d", i, b.Job, len(in.Jobs))
		}
		s.Bundles[i].Alloc = b.Alloc
		if b.Job > 0 {
			s.Bundles[i].Job = in.Jobs[b.Job-1]
		}
	}
	return nil
}
