package ask

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/weir-dev/weir/cmd/internal/cli/explain"
	"github.com/weir-dev/weir/limiter/clientip"
)

// requestFlags describe a request.
type requestFlags struct {
	domain, method, host, path, clientIP, claims string
	headers, descriptors                         []string
	cost                                         int64
}

func (f *requestFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.domain, "domain", "", "domain of the request: the namespace whose policies apply")
	flags.StringVar(&f.method, "method", "", "method of the request, for example GET")
	flags.StringVar(&f.host, "host", "", "host of the request")
	flags.StringVar(&f.path, "path", "", "path of the request, with its query")
	flags.StringArrayVarP(&f.headers, "header", "H", nil, "header of the request, as \"Name: value\"; can be repeated")
	flags.StringVar(&f.clientIP, "client-ip", "", "address of the client")
	flags.StringVar(&f.claims, "claims", "", "claims of the client's token, as a JSON object")
	flags.StringArrayVar(&f.descriptors, "descriptor", nil, "descriptor of the request, as key=value,key=value; can be repeated")
	flags.Int64Var(&f.cost, "cost", 0, "number of times that the request counts; 0 means once")
}

func (f *requestFlags) request() (explain.Request, error) {
	r := explain.Request{Domain: f.domain, Method: f.method, Host: f.host, Path: f.path, ClientIP: f.clientIP, Cost: f.cost}
	if _, ok := clientip.Parse(f.clientIP); !ok && f.clientIP != "" {
		return r, fmt.Errorf("--client-ip %q is invalid: must be an IP address, for example 203.0.113.7", f.clientIP)
	}
	for _, text := range f.headers {
		name, value, err := explain.ParseHeader(text)
		if err != nil {
			return r, fmt.Errorf("--header: %w", err)
		}
		if r.Headers == nil {
			r.Headers = map[string]string{}
		}
		r.Headers[strings.ToLower(name)] = value
	}
	for _, text := range f.descriptors {
		descriptor, err := explain.ParseDescriptor(text)
		if err != nil {
			return r, fmt.Errorf("--descriptor: %w", err)
		}
		r.Descriptors = append(r.Descriptors, descriptor)
	}
	if f.claims != "" {
		if !json.Valid([]byte(f.claims)) {
			return r, errors.New("--claims is not valid JSON")
		}
		r.Claims = json.RawMessage(f.claims)
	}
	return r, nil
}

// writeRequestFlags describe a write to the Kubernetes API.
type writeRequestFlags struct {
	filename string
	explain.Write
}

func (f *writeRequestFlags) add(flags *pflag.FlagSet) {
	flags.StringVarP(&f.filename, "filename", "f", "", "file with a Kubernetes object, or - for standard input: explain the write of the object")
	flags.StringVar(&f.User, "as", "", "user who writes the object; required with --filename")
	flags.StringArrayVar(&f.Groups, "as-group", nil, "group of the user; can be repeated. system:authenticated is added, and the groups of a service account")
	flags.StringVar(&f.Operation, "operation", "CREATE", "operation: CREATE, UPDATE, DELETE or CONNECT")
	flags.StringVarP(&f.Namespace, "namespace", "n", "", "namespace of the object; empty uses the one in the file, and without one the object is cluster-scoped")
	flags.StringVar(&f.Resource, "resource", "", "resource of the object, for example deployments; empty derives it from the kind")
	flags.StringVar(&f.Subresource, "subresource", "", "subresource that is written, for example scale")
}

// review returns the AdmissionReview of the write.
func (f *writeRequestFlags) review(stdin io.Reader) ([]byte, error) {
	if f.User == "" {
		return nil, errors.New("--as is required with --filename: name the user who writes the object")
	}
	operations := []string{"CREATE", "UPDATE", "DELETE", "CONNECT"}
	if f.Operation = strings.ToUpper(f.Operation); !slices.Contains(operations, f.Operation) {
		return nil, fmt.Errorf("--operation %q is invalid: must be one of %s", f.Operation, strings.Join(operations, ", "))
	}
	object, err := readInput(f.filename, stdin)
	if err != nil {
		return nil, err
	}
	review, err := f.Review(object)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.filename, err)
	}
	return review, nil
}

// readInput reads a file, or standard input for "-".
func readInput(name string, stdin io.Reader) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(stdin)
	}
	return os.ReadFile(name)
}
