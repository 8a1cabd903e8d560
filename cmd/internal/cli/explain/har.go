package explain

import (
	"encoding/json"
	"errors"
	"fmt"
)

// har is the part of an HTTP archive that a request is read from.
type har struct {
	Log *struct {
		Entries []struct {
			Request struct {
				Method  string `json:"method"`
				URL     string `json:"url"`
				Headers []struct {
					Name  string `json:"name"`
					Value string `json:"value"`
				} `json:"headers"`
			} `json:"request"`
		} `json:"entries"`
	} `json:"log"`
}

func isHAR(text []byte) bool {
	var archive har
	return json.Unmarshal(text, &archive) == nil && archive.Log != nil
}

func readHAR(text []byte) (r Request, note string, err error) {
	var archive har
	if err := json.Unmarshal(text, &archive); err != nil {
		return Request{}, "", fmt.Errorf("read the HAR file: %w", err)
	}
	entries := archive.Log.Entries
	if len(entries) == 0 {
		return Request{}, "", errors.New("the HAR file has no request")
	}
	if len(entries) > 1 {
		note = fmt.Sprintf("only the first of %d requests of the HAR file is explained", len(entries))
	}
	first := entries[0].Request
	r.Method = first.Method
	for _, header := range first.Headers {
		r.addHeader(header.Name, header.Value)
	}
	return r, note, r.setURL(first.URL)
}
