package job

// Schema is the lowest schema of a cluster whose servers and nodes all know what the job asks for: older ones would
// take it for another job. Of what needs 12 or less, those who brought it tell.
func (j *Job) Schema() uint64 {
	needs := j.NeedsOfLaunches()
	if j.NeedsBatches() {
		needs = max(needs, SchemaBatches)
	}
	if j.BringsFiles() {
		needs = max(needs, SchemaFiles)
	}
	return needs
}
