package jobrules

import (
	"fmt"

	"berth/api"
	"berth/internal/model/job"
)

// nulls lists the elements of a job's lists and maps that are null, by their paths.
func nulls(j *api.Job) []error {
	paths := job.Nulls(j)
	out := make([]error, 0, len(paths))
	for _, p := range paths {
		out = append(out, fmt.Errorf("%s is null", p))
	}
	return out
}
