"""What a resolver answers besides redirects: pages, explanations, registration, administration, other protocols.

Handlers read a request, call the code that decides, and answer. A page is a value; `ibi.web` writes HTML.

Entry points: `site.Site`, `registration.RegistrationHandler`, `administration`, `programs`.
"""
