package wire

import (
	"fmt"

	"berth/internal/model/alloc"
	"berth/internal/model/job"
)

// Bundles are allocs with their job versions. On the wire each job version is there once, however many allocs are of
// it: a thousand allocs of a job with long templates would not fit into a message otherwise.
type Bundles []alloc.Bundle

// bundles are Bundles on the wire. Of names, for each alloc, its job by its place in Jobs, from 1; 0: none.
type bundles struct {
	Jobs   []*job.Job
	Allocs []*alloc.Alloc
	Of     []int
}

// MarshalCBOR writes jobs that bundles share once.
func (bs Bundles) MarshalCBOR() ([]byte, error) {
	var out bundles
	places := map[*job.Job]int{nil: 0}
	for _, b := range bs {
		if _, known := places[b.Job]; !known {
			out.Jobs = append(out.Jobs, b.Job)
			places[b.Job] = len(out.Jobs)
		}
		out.Allocs, out.Of = append(out.Allocs, b.Alloc), append(out.Of, places[b.Job])
	}
	return Encode(out)
}

// UnmarshalCBOR gives bundles of one job version the same job: it must not be changed.
func (bs *Bundles) UnmarshalCBOR(data []byte) error {
	var in bundles
	if err := Decode(data, &in); err != nil {
		return err
	}
	if len(in.Of) != len(in.Allocs) {
		return fmt.Errorf("%d allocs come with %d jobs", len(in.Allocs), len(in.Of))
	}
	*bs = nil
	jobs := append([]*job.Job{nil}, in.Jobs...)
	for i, a := range in.Allocs {
		if in.Of[i] < 0 || in.Of[i] >= len(jobs) {
			return fmt.Errorf("bundle %d names job %d of %d", i, in.Of[i], len(in.Jobs))
		}
		*bs = append(*bs, alloc.Bundle{Alloc: a, Job: jobs[in.Of[i]]})
	}
	return nil
}
