package packed

import "net/http"

// Coded gives a reply a status of its own: it is written with the first of its body, when its headers are there.
func Coded(w http.ResponseWriter, status int) http.ResponseWriter {
	return &coded{ResponseWriter: w, status: status}
}

type coded struct {
	http.ResponseWriter
	status int // 0: it was written
}

// Write implements io.Writer.
func (c *coded) Write(p []byte) (int, error) {
	if c.status != 0 {
		c.ResponseWriter.WriteHeader(c.status)
		c.status = 0
	}
	return c.ResponseWriter.Write(p)
}
