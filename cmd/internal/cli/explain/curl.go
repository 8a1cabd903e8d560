package explain

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

// curlOption is what an option of curl does to the request.
type curlOption int

const (
	curlIgnored curlOption = iota // without a value
	curlIgnoredValue
	curlMethod
	curlHeader
	curlBody // the method is POST
	curlGet  // a body becomes the query
	curlHead
	curlUpload
	curlURL
	curlUser
	curlBearer
	curlCookie
	curlAgent
	curlReferer
)

func (o curlOption) takesValue() bool {
	return o != curlIgnored && o != curlGet && o != curlHead
}

// curlOptions are the options of curl by their names. Those that concern only the connection and the output are ignored.
func curlOptions() map[string]curlOption {
	options := map[string]curlOption{
		"-X": curlMethod, "--request": curlMethod, "-H": curlHeader, "--header": curlHeader, "-G": curlGet, "--get": curlGet,
		"-I": curlHead, "--head": curlHead, "-T": curlUpload, "--upload-file": curlUpload, "--url": curlURL, "-u": curlUser, "--user": curlUser,
		"--oauth2-bearer": curlBearer, "-b": curlCookie, "--cookie": curlCookie, "-A": curlAgent, "--user-agent": curlAgent,
		"-e": curlReferer, "--referer": curlReferer,
	}
	for name := range strings.FieldsSeq("-d --data --data-raw --data-binary --data-ascii --data-urlencode --json -F --form --form-string") {
		options[name] = curlBody
	}
	for name := range strings.FieldsSeq("-s --silent -S --show-error -k --insecure -v --verbose -i --include -L --location -f --fail --fail-with-body " +
		"--compressed -g --globoff -N --no-buffer -O --remote-name -# --progress-bar -0 --http1.0 --http1.1 --http2 --http2-prior-knowledge --http3 " +
		"-4 --ipv4 -6 --ipv6 --path-as-is --tcp-nodelay --no-keepalive") {
		options[name] = curlIgnored
	}
	for name := range strings.FieldsSeq("-o --output -w --write-out -m --max-time --connect-timeout --resolve --connect-to --cacert --capath -E --cert " +
		"--key -x --proxy -D --dump-header --retry --retry-delay --unix-socket --interface -c --cookie-jar --ciphers --tls-max --max-redirs") {
		options[name] = curlIgnoredValue
	}
	return options
}

// curlCommand is the state of readCurl.
type curlCommand struct {
	request Request
	url     string
	body    []string
	isGet   bool
}

// readCurl reads the request that a curl command sends. It runs nothing, and reads no files.
func readCurl(command string) (Request, error) {
	words, err := shellWords(command)
	if err != nil {
		return Request{}, err
	}
	c, options := curlCommand{}, curlOptions()
	for i := 1; i < len(words); i++ {
		word := words[i]
		if !strings.HasPrefix(word, "-") || word == "-" {
			c.url = word
			continue
		}
		name, value, has := word, "", false
		if strings.HasPrefix(word, "--") {
			name, value, has = strings.Cut(word, "=")
		}
		for rest := word; ; rest = "-" + rest[2:] { // short options can be in one word
			short := !strings.HasPrefix(word, "--")
			if short {
				name, value, has = rest[:2], rest[2:], len(rest) > 2
			}
			option, ok := options[name]
			if !ok {
				return Request{}, fmt.Errorf("option %s of curl is not supported; remove it, or describe the request with flags", name)
			}
			if option.takesValue() && !has {
				if i++; i == len(words) {
					return Request{}, fmt.Errorf("option %s of curl has no value", name)
				}
				value = words[i]
			}
			if err := c.apply(option, value); err != nil {
				return Request{}, err
			}
			if !short || option.takesValue() || len(rest) == 2 {
				break
			}
		}
	}
	return c.finish()
}

func (c *curlCommand) apply(option curlOption, value string) error {
	r := &c.request
	switch option {
	case curlMethod:
		r.Method = value
	case curlHeader:
		if strings.HasSuffix(value, ";") && !strings.Contains(value, ":") { // a header without a value
			value = strings.TrimSuffix(value, ";") + ":"
		}
		name, text, err := ParseHeader(value)
		if err != nil {
			return err
		}
		r.addHeader(name, text)
	case curlBody:
		c.body = append(c.body, value)
	case curlGet:
		c.isGet = true
	case curlHead:
		r.Method = "HEAD"
	case curlUpload:
		r.Method = "PUT"
	case curlURL:
		c.url = value
	case curlUser:
		r.addHeader("authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(value)))
	case curlBearer:
		r.addHeader("authorization", "Bearer "+value)
	case curlCookie:
		if strings.Contains(value, "=") { // otherwise it is the name of a file
			r.addHeader("cookie", value)
		}
	case curlAgent:
		r.setHeader("user-agent", value)
	case curlReferer:
		r.setHeader("referer", value)
	}
	return nil
}

func (c *curlCommand) finish() (Request, error) {
	if c.url == "" {
		return Request{}, errors.New("the curl command has no URL")
	}
	if c.isGet && len(c.body) > 0 {
		separator := "?"
		if strings.Contains(c.url, "?") {
			separator = "&"
		}
		c.url += separator + strings.Join(c.body, "&")
	}
	if c.request.Method == "" {
		c.request.Method = "GET"
		if len(c.body) > 0 && !c.isGet {
			c.request.Method = "POST"
		}
	}
	return c.request, c.request.setURL(c.url)
}
