package httpapi

// Routes lists the route table, each as "GET /v1/jobs".
func Routes() (out []string) {
	for _, r := range routes {
		out = append(out, r.method+" "+r.path)
	}
	return out
}
